//! The proxy between this client and the service.

use hyper_util::client::proxy::matcher::Matcher;

use crate::base_url::BaseUrl;

/// Returns the proxy that requests to a URL go through, without its user name and
/// password. reqwest finds it in the same way: in `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`
/// and `NO_PROXY`, in capitals or not, or in the settings of the system.
pub(crate) fn of(base_url: &BaseUrl) -> Option<String> {
    let url = base_url.as_url().as_str().parse().ok()?;
    let proxy = Matcher::from_system().intercept(&url)?;
    let uri = proxy.uri();
    let scheme = uri.scheme_str().unwrap_or("http");
    // Without the user name and password.
    let host = uri.authority()?.as_str().rsplit('@').next()?;
    Some(format!("{scheme}://{host}"))
}
