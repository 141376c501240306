//! Enums whose variants have names: each variant is declared once, with its name.

/// Declares an enum, `ALL` with its variants in the same order, and a method that returns the name
/// of each, the text behind its `=`. With `impl Display`, the enum is displayed as its name; with
/// `impl FromStr` as well, it is read from its name, and the error is the text behind `or`.
#[macro_export]
macro_rules! named_enum {
    (
        $(#[$about:meta])*
        pub enum $type:ident { $($variants:tt)* }
        impl Display;
        impl FromStr or $expected:literal;
    ) => {
        $crate::named_enum! {
            $(#[$about])*
            pub enum $type { $($variants)* }
            impl Display;
        }

        impl ::std::str::FromStr for $type {
            type Err = &'static str;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                Self::ALL.into_iter().find(|value| value.name() == name).ok_or($expected)
            }
        }
    };
    (
        $(#[$about:meta])*
        pub enum $type:ident { $($variants:tt)* }
        impl Display;
    ) => {
        $crate::named_enum! {
            $(#[$about])*
            pub enum $type { $($variants)* }
            fn name(self);
        }

        impl ::std::fmt::Display for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
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
