//! Who may ask, and who may change.
//!
//! A page of a foreign site can make a browser send requests to 127.0.0.1, and after a DNS rebinding even read the
//! answers; it can't choose the `Host` header though, so a foreign one is refused. Changing anything needs the token,
//! and so does reading when the API listens beyond this machine.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::{Api, ApiError};

/// Host names under which the API answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosts {
    names: BTreeSet<String>,
    /// It listens on this machine only.
    pub(super) loopback: bool,
}

impl Hosts {
    /// The names of the address that is listened on, and more.
    #[must_use]
    pub fn of(listen: SocketAddr, more: &[String]) -> Self {
        let mut names: BTreeSet<String> = more.iter().map(|name| name.to_ascii_lowercase()).collect();
        names.extend(["localhost", "127.0.0.1", "[::1]"].map(ToOwned::to_owned));
        let ip = listen.ip();
        if !ip.is_unspecified() {
            names.insert(if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() });
        }
        Self { names, loopback: ip.is_loopback() }
    }

    /// Whether a `Host` (name and maybe port) is ours.
    #[must_use]
    pub fn allows(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            // The last colon of a bare IPv6 address is inside its brackets.
            Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !port.is_empty() => name,
            _ => host,
        };
        self.names.contains(&name.to_ascii_lowercase())
    }
}

/// Paths that need no token even when the API listens beyond this machine: they say nothing but "yes" and "no".
const OPEN: [&str; 2] = ["/healthz", "/readyz"];

pub(super) async fn guard(State(api): State<Api>, request: Request, next: Next) -> Response {
    match admit(&api, request.method(), request.uri().path(), request.uri().host(), request.headers()) {
        Ok(()) => {
            let mut response = next.run(request).await;
            let headers = response.headers_mut();
            headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
            headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
            response
        }
        Err(error) => error.into_response(),
    }
}

fn admit(
    api: &Api,
    method: &Method,
    path: &str,
    uri_host: Option<&str>,
    headers: &HeaderMap,
) -> Result<(), ApiError> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let foreign = |host: &str| !api.hosts().allows(host);
    if host.is_none_or(foreign) || uri_host.is_some_and(foreign) {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "this name isn't one of this server's",
            "use the address that drydock printed, or start it with the name as an allowed host",
        ));
    }
    let reads = *method == Method::GET || *method == Method::HEAD;
    if OPEN.contains(&path) || (reads && api.hosts().loopback) {
        return Ok(());
    }
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let offered =
        bearer.and_then(|value| value.strip_prefix("Bearer ").or_else(|| value.strip_prefix("bearer ")));
    match offered {
        Some(offered) if api.token().is(offered.trim()) => Ok(()),
        Some(_) | None => Err(ApiError::new(
            StatusCode::UNAUTHORIZED,
            "this needs the token",
            "send `Authorization: Bearer …` with the word in the file `token` of drydock's directory",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_names_are_answered() {
        let hosts = Hosts::of(SocketAddr::from(([127, 0, 0, 1], 7700)), &["Fleet.Example".to_owned()]);
        for host in ["localhost:7700", "127.0.0.1", "[::1]:7700", "[::1]", "LOCALHOST", "fleet.example:443"] {
            assert!(hosts.allows(host), "{host}");
        }
        for host in
            ["evil.example", "evil.example:7700", "127.0.0.1.evil.example", "", ":7700", "localhost:x", "::1"]
        {
            assert!(!hosts.allows(host), "{host}");
        }
        let wide = Hosts::of(SocketAddr::from(([0, 0, 0, 0], 80)), &[]);
        assert!(!wide.loopback && !wide.allows("0.0.0.0") && wide.allows("localhost"));
    }
}
