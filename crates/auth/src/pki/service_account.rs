//! The service account signing key: generated once as `sa.key`; `sa.pub` is its public key.

use std::path::Path;

use super::{KEY_MODE, PkiError, files, pem};
use crate::jwt::{KeyError, SigningKey};

/// Loads `sa.key`, or generates it. An existing key is never overwritten: that would invalidate every token.
pub fn service_account_key(dir: &Path) -> Result<SigningKey, PkiError> {
    let (path, public_path) = (dir.join("sa.key"), dir.join("sa.pub"));
    let file = |action, path: &Path| {
        let path = path.to_owned();
        move |source| PkiError::File { action, path, source }
    };
    files::make_dir(dir).map_err(file("create the directory", dir))?;
    let damaged = |why: KeyError| PkiError::Damaged {
        path: path.clone(),
        why: why.to_string(),
        hint: " (a private key is never overwritten)",
    };
    let found = files::read(&path).map_err(file("read", &path))?;
    let public_found = files::read(&public_path).map_err(file("read", &public_path))?;
    let key = match found {
        Some(pem) => SigningKey::from_pem(&pem).map_err(damaged)?,
        None if public_found.is_some() => {
            let hint = "restore the key from a backup; or move sa.pub away to generate a new pair, which invalidates every token \
                        issued so far";
            return Err(PkiError::KeyMissing { present: public_path, missing: path, hint });
        }
        None => {
            let pkcs8 = SigningKey::generate_pkcs8().map_err(damaged)?;
            let text = pem::encode(pem::PRIVATE_KEY, &pkcs8);
            files::create(&path, text.as_bytes(), KEY_MODE).map_err(file("write", &path))?;
            SigningKey::from_pkcs8(&pkcs8).map_err(damaged)?
        }
    };
    let public = key.public().to_pem();
    // A missing `sa.pub` is the result of a crash between the two writes; this also makes the directory entry of the key durable.
    if public_found.as_deref() != Some(public.as_bytes()) {
        files::replace(&public_path, public.as_bytes(), KEY_MODE).map_err(file("write", &public_path))?;
    }
    Ok(key)
}
