//! The dashboard's files. They are looked up, never listed, and come from whoever starts the server.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, header};
use axum::response::{IntoResponse, Response};

use super::{Api, ApiError, read::nothing_here};

/// A file of the dashboard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Its media type.
    pub content_type: Cow<'static, str>,
    /// Its bytes.
    pub bytes: Cow<'static, [u8]>,
    /// Its name changes with its content, so it may be kept for good.
    pub immutable: bool,
}

/// Looks a file up by its path, without the leading slash; `index.html` is the page itself.
pub type Pages = Arc<dyn Fn(&str) -> Option<Page> + Send + Sync>;

/// Scripts and styles come from this server alone.
const POLICY: &str = "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

pub(super) async fn page(State(api): State<Api>, request: Request) -> Result<Response, ApiError> {
    let path = request.uri().path().trim_start_matches('/');
    let Some(pages) = api.pages().filter(|_| *request.method() == Method::GET && !path.starts_with("api/"))
    else {
        return Err(nothing_here().await);
    };
    // Addresses inside the dashboard (`/rollouts/x`) are its own; files have an extension.
    let is_file = path.rsplit('/').next().is_some_and(|name| name.contains('.'));
    let found = pages(path).or_else(|| (!is_file).then(|| pages("index.html")).flatten());
    let Some(Page { content_type, bytes, immutable }) = found else { return Err(nothing_here().await) };
    let cache = if immutable { "public, max-age=31536000, immutable" } else { "no-cache" };
    let mut response = bytes.into_response();
    let headers = response.headers_mut();
    let content_type = HeaderValue::from_str(&content_type);
    headers.insert(
        header::CONTENT_TYPE,
        content_type.unwrap_or_else(|_| HeaderValue::from_static("application/octet-stream")),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    Ok(response)
}
