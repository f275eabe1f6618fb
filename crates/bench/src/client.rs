//! A simple blocking client for the requests around a measurement: setup, checks, teardown.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use crate::endpoint::Endpoint;
use crate::error::BenchError;
use crate::request::{Body, Template};
use crate::response::Response;
use crate::wire::{ReadState, Wire};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Above kube-apiserver's own request timeout of 60 s.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(75);
/// No answer around a measurement is near this; more is cut off.
const MAX_BODY: usize = 16 << 20;

pub struct Client {
    endpoint: Endpoint,
    wire: Option<Wire<TcpStream>>,
}

pub struct Answer {
    pub status: u16,
    /// Names as the server wrote them.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Client {
    pub fn new(endpoint: Endpoint) -> Self {
        Client { endpoint, wire: None }
    }

    pub fn connect(endpoint: &Endpoint) -> Result<Wire<TcpStream>, BenchError> {
        Wire::connect(endpoint, CONNECT_TIMEOUT)
    }

    pub fn call(&mut self, method: &str, path: &str, body: Option<Body<'_>>) -> Result<Answer, BenchError> {
        let mut request = Vec::new();
        Template::new(&self.endpoint, method, path, body, 1).fill(0, 0, &mut request);
        self.ask(method, path, &request)
    }

    /// Any request: these headers beside Host, credentials and length.
    pub fn exchange_raw(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<Answer, BenchError> {
        let Endpoint { path_prefix, host, token, .. } = &self.endpoint;
        let mut request =
            format!("{method} {path_prefix}{path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: setpoint\r\n");
        if let Some(token) = token {
            request.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        self.ask(method, path, request.as_bytes())
    }

    fn ask(&mut self, method: &str, path: &str, request: &[u8]) -> Result<Answer, BenchError> {
        // A server may close a connection that was idle; it has then not read the request, so it is sent again.
        if let Some(wire) = self.wire.take()
            && let Ok(answer) = self.exchange(wire, request)
        {
            return Ok(answer);
        }
        let wire = Self::connect(&self.endpoint)?;
        let doing = || format!("it answered {method} {path}");
        wire.set_read_timeout(ANSWER_TIMEOUT).and_then(|()| self.exchange(wire, request)).map_err(|source| {
            BenchError::Connection { server: self.endpoint.server.clone(), doing: doing(), source }
        })
    }

    fn exchange(&mut self, mut wire: Wire<TcpStream>, request: &[u8]) -> io::Result<Answer> {
        wire.send(request)?;
        let mut response = Response::new();
        response.keep_headers();
        let mut answer = Vec::new();
        let mut bad = None;
        while !response.is_done() {
            let state = wire.read(&mut |bytes| {
                let mut keep = |_, piece: &[u8]| {
                    let room = MAX_BODY - answer.len();
                    answer.extend_from_slice(&piece[..piece.len().min(room)]);
                };
                if let Err(error) = response.feed(bytes, &mut keep) {
                    bad = Some(error);
                }
            })?;
            match (bad, state) {
                (Some(error), _) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
                (None, ReadState::Nothing) => return Err(io::ErrorKind::TimedOut.into()),
                (None, ReadState::Closed) if !response.end_of_stream() => {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                (None, _) => {}
            }
        }
        if !response.closes() {
            self.wire = Some(wire);
        }
        Ok(Answer { status: response.status(), headers: response.take_headers(), body: answer })
    }

    /// Like `call`, but a status that is neither 2xx nor among `also_fine` is an error.
    pub fn expect(
        &mut self,
        method: &str,
        path: &str,
        body: Option<Body<'_>>,
        also_fine: &[u16],
    ) -> Result<Answer, BenchError> {
        let answer = self.call(method, path, body)?;
        if (200..300).contains(&answer.status) || also_fine.contains(&answer.status) {
            return Ok(answer);
        }
        Err(BenchError::Refused {
            server: self.endpoint.server.clone(),
            doing: format!("{method} {path}"),
            status: answer.status,
            body: shorten(&answer.body),
        })
    }
}

/// The beginning of a body, for a message.
pub fn shorten(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(300)]).trim().to_string();
    if body.len() > 300 { format!("{text}...") } else { text }
}
