//! What `packaging/` builds, from the programs of this test: an image without anything but the
//! service, Debian packages, and archives, which `setup-chlog` installs.

use std::path::Path;
use std::process::{Command, Output};

use changelog_tests::installed::{api_tool, in_path, missing};
use changelog_tests::receivers::{Answer, Receiver};
use changelog_tests::{assert_contains, programs, run};

/// The repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace")
}

fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// Runs a script of `packaging/` or of this test to its end, and returns what it printed.
#[track_caller]
fn succeeds(mut command: Command, input: &str) -> String {
    command.current_dir(root());
    let output = run(command, input);
    assert!(output.status.success(), "{}", said(&output));
    said(&output)
}

/// Returns whether this process may mount and change its root.
fn is_root() -> bool {
    let id = run(Command::new("id"), "");
    said(&id).starts_with("uid=0(")
}

/// Starts the service of an image as its user, asks for its health, and reads its settings.
const IN_THE_IMAGE: &str = r#"
set -eu
container=$(buildah from "$IMAGE")
trap 'kill $serve 2>/dev/null || true; wait; buildah rm "$container" >/dev/null' EXIT
buildah run "$container" /usr/bin/changelog-server serve --listen 127.0.0.1:0 2>"$FOLDER/log" &
serve=$!
for _ in $(seq 300); do
    ! grep -q '^listening on ' "$FOLDER/log" || break
    sleep 0.1
done
cat "$FOLDER/log"
address=$(sed -n 's/^listening on //p' "$FOLDER/log")
buildah run "$container" /usr/bin/changelog-server health --url "$address"
! buildah run "$container" /usr/bin/changelog-server health --url http://127.0.0.1:1
! buildah run "$container" /bin/sh -c true
buildah inspect --format '{{.Docker.Config.User}} {{.Docker.Config.Healthcheck}}' "$IMAGE"
"#;

#[test]
fn the_image_has_the_service_only_and_runs_it_as_its_user() {
    if in_path("buildah").is_none() || !is_root() {
        missing("buildah", "buildah, as root,");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let image = format!("changelog-server:test-{}", std::process::id());
    let command = |program: &str| {
        let mut command = Command::new(program);
        // Nothing of the machine's own images is touched, and no other kernel feature needed.
        command
            .env("STORAGE_DRIVER", "vfs")
            .env("BUILDAH_ISOLATION", "chroot")
            .env(
                "CONTAINERS_STORAGE_CONF",
                folder.path().join("storage.conf"),
            )
            .env("IMAGE", &image)
            .env("FOLDER", folder.path());
        command
    };
    let storage = format!(
        "[storage]\ndriver = \"vfs\"\ngraphroot = \"{0}/images\"\nrunroot = \"{0}/run\"\n",
        folder.path().display()
    );
    std::fs::write(folder.path().join("storage.conf"), storage).expect("a file");
    let mut build = command("packaging/build-image.sh");
    build.arg(&image).arg(programs::server());
    succeeds(build, "");
    let mut shell = command("bash");
    shell.args(["-c", IN_THE_IMAGE]);
    let told = succeeds(shell, "");
    for part in [
        "listening on http://",
        "database: ok",
        "65532:65532",
        "health",
    ] {
        assert_contains(&told, part);
    }
}

/// Installs the packages in a copy of this machine's files, which is thrown away, and purges
/// them.
const IN_A_COPY: &str = r#"
set -eu
mount -t tmpfs tmpfs "$FOLDER/copy"
mkdir "$FOLDER/copy/new" "$FOLDER/copy/work" "$FOLDER/copy/root"
mount -t overlay overlay \
    -o "lowerdir=/,upperdir=$FOLDER/copy/new,workdir=$FOLDER/copy/work" "$FOLDER/copy/root"
cp "$FOLDER"/packages/*.deb "$FOLDER/copy/root/root/"
chroot "$FOLDER/copy/root" sh -eu <<'END'
dpkg --install /root/*.deb
changelog-server --version
chlog --version
id changelog
ls /lib/systemd/system/changelog.service /usr/share/man/man1/changelog-server.1.gz \
    /usr/share/man/man1/chlog-log.1.gz /usr/share/bash-completion/completions/chlog
mkdir -p /var/lib/changelog
touch /var/lib/changelog/changelog.db
dpkg --purge changelog-server chlog
! command -v changelog-server
! ls /lib/systemd/system/changelog.service
ls /var/lib/changelog/changelog.db
END
"#;

#[test]
fn the_debian_packages_are_installed_and_purged() {
    if in_path("cargo-deb").is_none() || in_path("dpkg-shlibdeps").is_none() || !is_root() {
        missing("cargo-deb", "cargo-deb and dpkg-dev, as root,");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::create_dir(folder.path().join("copy")).expect("a folder");
    let profile = programs::folder().file_name().expect("a profile");
    let mut build = Command::new("packaging/build-deb.sh");
    build
        .arg(folder.path().join("packages"))
        .arg(profile)
        .arg("--fast");
    let packages = succeeds(build, "");
    assert_contains(&packages, "changelog-server_");
    assert_contains(&packages, "chlog_");
    let mut copy = Command::new("unshare");
    copy.args(["--mount", "bash", "-c", IN_A_COPY])
        .env("FOLDER", folder.path());
    let told = succeeds(copy, "");
    for part in ["(changelog)", "chlog 0.", "changelog-server 0.", "was kept"] {
        assert_contains(&told, part);
    }
}

/// Serves the files of a folder.
async fn serve(folder: &Path) -> Receiver {
    let server = Receiver::start().await;
    let folder = folder.to_owned();
    server.answer_by(move |request| {
        let file = folder.join(request.path.trim_start_matches('/'));
        std::fs::read(file).map_or_else(|_| Answer::status(404), Answer::bytes)
    });
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn the_archive_is_installed_by_the_action() {
    if in_path("curl").is_none() {
        missing("curl", "curl");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (archives, home) = (folder.path().join("archives"), folder.path().join("home"));
    let profile = programs::folder().file_name().expect("a profile");
    let mut build = Command::new("packaging/build-archives.sh");
    build.arg(&archives).arg(profile);
    let sums = succeeds(build, "");
    assert_contains(&sums, "  changelog-server-linux-");
    let server = serve(&archives).await;
    let download = |url: &str| {
        let mut command = Command::new("bash");
        command
            .arg("setup-chlog/download.sh")
            .args([url])
            .arg(&home);
        command.current_dir(root());
        let output = run(command, "");
        (output.status.success(), said(&output))
    };
    let (is_installed, told) = download(&server.base());
    assert!(is_installed, "{told}");
    assert_contains(&told, "chlog 0.");
    let mut version = Command::new(home.join("bin/chlog"));
    version.arg("--version");
    assert_contains(&succeeds(version, ""), "chlog 0.");
    std::fs::remove_dir_all(&home).expect("a folder");

    // Neither an archive with another checksum nor one that is missing is installed.
    let archive = std::fs::read_dir(&archives).expect("a folder");
    let mut files = archive.map(|file| file.expect("a file").path());
    let archive = files.find(|file| file.to_string_lossy().contains("/chlog-linux-"));
    let archive = archive.expect("an archive");
    let mut bytes = std::fs::read(&archive).expect("a file");
    bytes.push(0);
    std::fs::write(&archive, bytes).expect("a file");
    let (is_installed, told) = download(&server.base());
    assert!(!is_installed, "{told}");
    assert_contains(&told, "SHA256SUMS says");
    std::fs::remove_file(&archive).expect("a file");
    let (is_installed, told) = download(&server.base());
    assert!(!is_installed, "{told}");
    assert_contains(&told, "cannot be downloaded");
    assert!(!home.join("bin/chlog").exists());
}

#[test]
fn the_manifests_match_the_schemas_of_kubernetes() {
    let Some(validate) = api_tool("python/bin/kubernetes-validate") else {
        return;
    };
    let mut command = Command::new(validate);
    command.arg("--strict");
    command.args(["sqlite", "postgres"].map(|name| format!("examples/kubernetes/{name}.yaml")));
    let printed = succeeds(command, "");
    for resource in [
        "sqlite.yaml passed for resource deployment/changelog",
        "postgres.yaml passed for resource deployment/changelog",
        "postgres.yaml passed for resource poddisruptionbudget/changelog",
    ] {
        assert_contains(&printed, resource);
    }
}
