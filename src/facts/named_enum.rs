//! Enums whose variants have names: each variant is declared once, with its name.

/// Declares an enum, `ALL` with its variants in the same order, and a method that returns the name
/// of each, the text behind its `=`.
#[macro_export]
macro_rules! named_enum {
    (
        $(#[$about:meta])*
        pub enum $type:ident {
            $($(#[$meaning:meta])* $variant:ident = $name:literal,)*
        }
        $(#[$about_name:meta])*
        $visible:vis fn $method:ident(self);
    ) => {
        $(#[$about])*
        pub enum $type {
            $($(#[$meaning])* $variant,)*
        }

        impl $type {
            /// All of them, in the order of their declaration.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            $(#[$about_name])*
            $visible fn $method(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}
