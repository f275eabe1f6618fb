use std::time::Duration;

use env::Env;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use super::*;
use crate::spdy::{Connection, Headers, Settings};
use crate::upgrade::{spdy_request, tunnel_protocol, websocket_request};
use crate::websocket::{Channels, Role};

/// Port 7 echoes, port 8 says its number and ends, all others are closed.
fn forward() -> Forward {
    Arc::new(|port, stream| {
        Box::pin(async move {
            match port {
                7 => loop {
                    let piece = stream.chunk().await.map_err(|error| error.to_string())?;
                    if piece.is_empty() {
                        stream.finish();
                        return Ok(());
                    }
                    stream.send(&piece).await.map_err(|error| error.to_string())?;
                },
                8 => {
                    let _ = stream.send(b"eight").await;
                    stream.finish();
                    Ok(())
                }
                _ => Err("connection refused".to_owned()),
            }
        })
    })
}

#[tokio::test(start_paused = true)]
async fn connections_are_forwarded_over_spdy_and_in_a_tunnel() {
    let env = Env::simulated(1);
    for tunnelled in [false, true] {
        let (near, far) = duplex(1000);
        let headers = match tunnelled {
            false => spdy_request(&[PROTOCOL]),
            true => websocket_request(&env, &[&tunnel_protocol(PROTOCOL)]),
        };
        let (negotiated, _) = negotiate(&Method::GET, &headers, &[]).unwrap();
        let server = serve(&env, Box::new(far), &negotiated, "default/web", "uid-1", forward());
        let client = async {
            let client = match tunnelled {
                false => Client::spdy(&env, Box::new(near), Settings::default()),
                true => Client::tunnel(&env, Box::new(near), Settings::default()),
            };
            let echoes = (0..20).map(|n: u32| {
                let client = &client;
                async move {
                    let (mut user, local) = duplex(500);
                    let (mut reader, mut writer) = tokio::io::split(&mut user);
                    let sent = n.to_string().repeat(3000).into_bytes();
                    let mut back = Vec::new();
                    let write = async {
                        writer.write_all(&sent).await.unwrap();
                        writer.shutdown().await.unwrap();
                    };
                    let (forwarded, (), read) =
                        tokio::join!(client.forward(7, local), write, reader.read_to_end(&mut back));
                    read.unwrap();
                    assert_eq!(forwarded, Ok(()));
                    assert!(back == sent);
                }
            });
            futures_util::future::join_all(echoes).await;

            let (mut user, local) = duplex(500);
            assert_eq!(client.forward(8, local).await, Ok(()));
            let mut back = Vec::new();
            user.read_to_end(&mut back).await.unwrap();
            assert_eq!(back, b"eight");

            let (_user, local) = duplex(500);
            assert_eq!(
                client.forward(9, local).await.unwrap_err(),
                "an error occurred forwarding 9: error forwarding port 9 to pod default/web, uid uid-1: \
                 connection refused"
            );
        };
        // The server ends with its client.
        tokio::join!(server, client);
    }
}

#[tokio::test(start_paused = true)]
async fn old_websocket_clients_get_two_channels_a_port() {
    let env = Env::simulated(1);
    for (protocol, codec) in
        [("v4.channel.k8s.io", Codec::Binary), ("v4.base64.channel.k8s.io", Codec::Base64)]
    {
        let (near, far) = duplex(1000);
        let headers = websocket_request(&env, &[protocol]);
        let (negotiated, _) = negotiate(&Method::GET, &headers, &["8,9"]).unwrap();
        let server = serve(&env, Box::new(far), &negotiated, "p", "u", forward());
        let client = async {
            let role = Role::Client(env.clone());
            let (_link, channels) = Channels::new::<4>(&env, Box::new(near), role, codec, None);
            let [a, b, c, d] = &channels;
            tokio::join!(a.read_all(100), b.read_all(100), c.read_all(100), d.read_all(100))
        };
        let ((), (a, b, c, d)) = tokio::join!(server, client);
        assert_eq!(a.unwrap(), b"\x08\0eight");
        assert_eq!(b.unwrap(), b"\x08\0");
        assert_eq!(c.unwrap(), b"\x09\0");
        assert_eq!(d.unwrap(), b"\x09\0error forwarding port 9 to pod p, uid u: connection refused");
    }
}

#[tokio::test(start_paused = true)]
async fn streams_are_paired_and_checked() {
    let env = Env::simulated(1);
    let (near, far) = duplex(1000);
    let server = serve(&env, Box::new(far), &Negotiated::Spdy, "p", "u", forward());
    let client = async {
        let connection = Connection::client(&env, Box::new(near), Settings::default());
        let open = |kind: &str, port: &str, id: &str| {
            connection.open(Headers::new([("streamType", kind), ("port", port), ("requestID", id)]))
        };
        for (kind, port) in
            [("data", ""), ("data", "x"), ("data", "0"), ("data", "70000"), ("other", "7"), ("", "7")]
        {
            assert!(open(kind, port, "1").await.is_err(), "{kind:?} {port:?}");
        }
        // Data first, and another request in between.
        let data = open("data", "8", "a").await.unwrap();
        let other = open("error", "9", "b").await.unwrap();
        let error = open("error", "8", "a").await.unwrap();
        assert_eq!(data.read_all(100).await.unwrap(), b"eight");
        assert_eq!(error.read_all(100).await.unwrap(), b"");
        // The other never gets its data stream.
        let start = env.monotonic();
        assert_eq!(other.read_all(100).await.unwrap(), b"(request=b) timed out waiting for streams");
        assert!((env.monotonic() - start).as_secs() <= 30);
        // Clients of old: no request id, the error stream first.
        let headers = |kind| Headers::new([("streamType", kind), ("port", "8")]);
        let _error = connection.open(headers("error")).await.unwrap();
        let data = connection.open(headers("data")).await.unwrap();
        assert_eq!(data.read_all(100).await.unwrap(), b"eight");
    };
    tokio::join!(server, client);
}

#[tokio::test(start_paused = true)]
async fn client_reset_ends_the_connection_into_the_pod() {
    let env = Env::simulated(1);
    let (near, far) = duplex(1000);
    let server = serve(&env, Box::new(far), &Negotiated::Spdy, "p", "u", forward());
    let client = async {
        let client = Client::spdy(&env, Box::new(near), Settings::default());
        let (user, local) = duplex(100);
        let forwarding = client.forward(7, local);
        let user = async {
            env.sleep(Duration::from_secs(1)).await;
            drop(user);
        };
        assert_eq!(tokio::join!(forwarding, user).0, Ok(()));
    };
    tokio::join!(server, client);
}

#[test]
fn tunnel_of_another_protocol_is_refused() {
    let env = Env::machine();
    let refused = |protocol: &str| {
        negotiate(&Method::GET, &websocket_request(&env, &[protocol]), &["80"])
            .err()
            .map(|r| r.status.as_u16())
    };
    assert_eq!(refused("SPDY/3.1+portforward.k8s.io"), None);
    assert_eq!(refused("SPDY/3.1+other.k8s.io"), Some(403));
    assert_eq!(refused("v5.channel.k8s.io"), Some(403));
    assert_eq!(refused("v4.channel.k8s.io"), None);
}

#[test]
fn ports_are_read_as_upstream_reads_them() {
    assert_eq!(parse_ports(&["80", "443,8080"]), Ok(vec![80, 443, 8080]));
    assert_eq!(parse_ports(&[]), Err("query parameter \"port\" is required".to_owned()));
    assert_eq!(parse_ports(&[""]), Err("query parameter \"port\" cannot be empty".to_owned()));
    assert_eq!(parse_ports(&["0"]), Err("port \"0\" must be > 0".to_owned()));
    assert_eq!(
        parse_ports(&["80,x"]),
        Err("unable to parse \"80,x\" as a port: strconv.ParseUint: parsing \"x\": invalid syntax".to_owned())
    );
    assert_eq!(
        parse_ports(&["70000"]),
        Err("unable to parse \"70000\" as a port: strconv.ParseUint: parsing \"70000\": value out of range"
            .to_owned())
    );
    assert!(parse_ports(&["+80"]).is_err());
    assert!(parse_ports(&["1"; 200]).is_err());
}
