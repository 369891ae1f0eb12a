//! The setters of builders.

/// Makes the setters of a builder, a line for each. `name(argument: Type) => member = value;`
/// sets a member of the input that the builder has in `$input`.
macro_rules! setters {
    ($input:ident: $(
        $(#[$doc:meta])*
        $name:ident($($argument:ident: $type:ty)?) => $member:ident = $value:expr;
    )+) => {$(
        $(#[$doc])*
        pub fn $name(mut self $(, $argument: $type)?) -> Self {
            self.$input.$member = $value;
            self
        }
    )+};
}
pub(crate) use setters;
