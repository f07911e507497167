//! The handshake: a name and a password become a token.

use arrow_flight::HandshakeRequest;
use arrow_flight::flight_service_client::FlightServiceClient;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures::{TryStreamExt, stream};
use tidegate::{Error, ErrorKind};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use super::address::Address;
use super::{ConnectOptions, said, unreadable};

/// The name of whoever gives none.
const ANONYMOUS: &str = "anonymous";

/// Logs in, and returns the token.
pub(super) async fn log_in(
    client: &mut FlightServiceClient<Channel>,
    options: &ConnectOptions,
    address: &Address,
) -> Result<String, Error> {
    let name = options.user.as_deref().unwrap_or(ANONYMOUS);
    let password = options.password.as_deref().unwrap_or_default();
    let mut request = Request::new(stream::iter([HandshakeRequest::default()]));
    let basic = BASE64_STANDARD.encode(format!("{name}:{password}"));
    let mut basic = format!("Basic {basic}")
        .parse::<tonic::metadata::AsciiMetadataValue>()
        .map_err(|error| unreadable(&error.to_string()))?;
    basic.set_sensitive(true);
    request.metadata_mut().insert("authorization", basic);
    let answer = client.handshake(request).await;
    let answer = answer.map_err(|status| refused(&status, options, address))?;
    let token = answer.metadata().get("authorization");
    let token = token.and_then(|token| token.to_str().ok()?.strip_prefix("Bearer "));
    let token = token.map(str::to_string);
    let messages = answer.into_inner().try_collect::<Vec<_>>().await;
    messages.map_err(|status| refused(&status, options, address))?;
    token.ok_or_else(|| unreadable("the login returned no token"))
}

fn refused(status: &Status, options: &ConnectOptions, address: &Address) -> Error {
    match (status.code(), &options.user) {
        (Code::Unauthenticated, None) => {
            let message = "this server has users: name one with --user";
            Error::new(ErrorKind::Denied, message)
        }
        (Code::Unauthenticated, Some(user)) => {
            let message = format!("{}, for the user {user}", status.message());
            Error::new(ErrorKind::Denied, message)
        }
        // A server with TLS ends a connection without it, without a word.
        (Code::Cancelled | Code::Unknown | Code::Unavailable | Code::Internal, _) => {
            let message = format!(
                "cannot log in at {address}: {}; is that the right port, and does the server want \
                 grpc+tls:// or grpc://?",
                status.message()
            );
            Error::new(ErrorKind::Io, message)
        }
        _ => said(status),
    }
}
