//! Macros for the code that most layers need.

/// Implements `Debug` for a type: prints only the name of the type and, if given, the named fields.
///
/// Meant for types whose other fields contain closures, services or secrets.
///
/// ```
/// struct Gate<S> {
///     inner: S,
/// }
/// mgp_types::opaque_debug!(Gate<S>);
///
/// struct Server {
///     id: u32,
///     secret: &'static str,
/// }
/// mgp_types::opaque_debug!(Server { id });
///
/// assert_eq!(format!("{:?}", Gate { inner: 1 }), "Gate");
/// assert_eq!(format!("{:?}", Server { id: 7, secret: "x" }), "Server { id: 7, .. }");
/// # let _ = (Gate { inner: 1 }.inner, Server { id: 7, secret: "x" }.secret);
/// ```
#[macro_export]
macro_rules! opaque_debug {
    ($name:ident $(< $($parameter:ident),+ >)?) => {
        impl $(< $($parameter),+ >)? ::std::fmt::Debug for $name $(< $($parameter),+ >)? {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    };
    ($name:ident $(< $($parameter:ident),+ >)? { $($field:ident),+ $(,)? }) => {
        impl $(< $($parameter),+ >)? ::std::fmt::Debug for $name $(< $($parameter),+ >)? {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.debug_struct(stringify!($name))
                    $(.field(stringify!($field), &self.$field))+
                    .finish_non_exhaustive()
            }
        }
    };
}

/// Declares the service of a layer: the struct, its `Debug` impl, and the `Layer` impl that creates the service with a
/// clone of the layer.
///
/// Only the `Service<Call>` impl remains to be written: `self.inner` is the inner service, and `self.layer` the
/// layer with its configuration. Use [`always_ready!`](crate::always_ready) for `poll_ready`.
///
/// ```
/// use mgp_types::service::{Call, MgpService, Reply};
/// use mgp_types::RpcError;
/// use tower_service::Service;
///
/// #[derive(Clone, Debug)]
/// pub struct CountLayer(std::sync::Arc<std::sync::atomic::AtomicU64>);
///
/// mgp_types::layer_service! {
///     /// Service of [`CountLayer`].
///     pub Count for CountLayer
/// }
///
/// impl<S: MgpService> Service<Call> for Count<S> {
///     type Response = Reply;
///     type Error = RpcError;
///     type Future = S::Future;
///     mgp_types::always_ready!();
///
///     fn call(&mut self, call: Call) -> S::Future {
///         self.layer.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
///         self.inner.call(call)
///     }
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! layer_service {
    ($(#[$meta:meta])* $vis:vis $service:ident for $layer:ident) => {
        $(#[$meta])*
        #[derive(Clone)]
        $vis struct $service<S> {
            inner: S,
            layer: $layer,
        }

        $crate::opaque_debug!($service<S>);

        impl<S> ::tower_layer::Layer<S> for $layer {
            type Service = $service<S>;

            fn layer(&self, inner: S) -> $service<S> {
                $service { inner, layer: self.clone() }
            }
        }
    };
}

/// Implements `Service::poll_ready` by calling `poll_ready` of `self.inner`, for services that are always ready.
/// `always_ready!(innermost)` is for a service without an inner service: it returns `Ready` immediately.
#[macro_export]
macro_rules! always_ready {
    (innermost) => {
        fn poll_ready(
            &mut self,
            _: &mut ::std::task::Context<'_>,
        ) -> ::std::task::Poll<Result<(), $crate::RpcError>> {
            ::std::task::Poll::Ready(Ok(()))
        }
    };
    () => {
        fn poll_ready(
            &mut self,
            task: &mut ::std::task::Context<'_>,
        ) -> ::std::task::Poll<Result<(), $crate::RpcError>> {
            self.inner.poll_ready(task)
        }
    };
}
