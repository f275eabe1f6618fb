//! get and list, at the revision the client means.

use std::num::ParseIntError;
use std::sync::Arc;
use std::time::Duration;

use object::selector::{FieldSelector, LabelSelector};
use object::{FieldError, ListOptions, Obj, Status, number_error, quote};
use store::Revision;
use table::{Page, PageStart, ReadError, Scope, Selection};

use crate::convert::webhook::{Asked, converted_storage, initializing};
use crate::token::Token;
use crate::{Registry, RequestContext, not_readable, redefined};

/// How long a read waits for a revision that has not come yet.
const WAIT_FOR_REVISION: Duration = Duration::from_secs(3);
/// So many objects at least are converted together when a page is selected from them.
const CONVERTED_AT_ONCE: i64 = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    NotOlderThan,
    Exact,
}

/// A page of a list.
pub struct List {
    pub items: Vec<Arc<Obj>>,
    pub revision: Revision,
    pub continue_token: Option<String>,
    pub remaining: Option<usize>,
}

impl Registry {
    /// One object; `resource_version` is the query's, empty for the newest.
    pub async fn get(
        &self,
        request: &RequestContext<'_>,
        resource_version: &str,
    ) -> Result<Arc<Obj>, Status> {
        let storage = request.storage()?;
        // Upstream's cache reports it for a get, the API for a list: message and code differ. Objects with a TTL are in no
        // cache.
        let parsed = parse_version(resource_version)
            .map_err(|status| if storage.ttl_seconds.is_some() { status } else { as_cache_error(&status) });
        match parsed? {
            None => self.linearizable_read().await?,
            Some(0) => {}
            Some(n) => self.wait_until(Revision(n)).await?,
        }
        let key = storage.key(request.namespace, request.name);
        let found = self.find(storage, &key)?;
        let found = found.ok_or_else(|| Status::not_found(request.about(), request.name))?;
        self.convert_one(request.resource, &found, asked(resource_version)).await
    }

    pub async fn list(&self, request: &RequestContext<'_>, options: &ListOptions) -> Result<List, Status> {
        validate(options)?;
        let selection = self.selection(request, options)?;
        if selection.looks_inside() && converted_storage(request.resource).is_some() {
            return self.list_converted(request, options, &selection).await;
        }
        let mut list = self.list_stored(request, options, &selection).await?;
        self.convert_list(request, options, &mut list.items).await?;
        Ok(list)
    }

    async fn convert_list(
        &self,
        request: &RequestContext<'_>,
        options: &ListOptions,
        items: &mut [Arc<Obj>],
    ) -> Result<(), Status> {
        let asked = asked(&options.resource_version);
        self.convert_for(request.resource, items, asked).await.map_err(|failure| match asked {
            Asked::Now => failure,
            Asked::Once => initializing(request.resource, failure),
        })
    }

    /// A list for somebody who does not look at the objects; only selectors may need them converted.
    pub(crate) async fn list_to_delete(
        &self,
        request: &RequestContext<'_>,
        options: &ListOptions,
    ) -> Result<List, Status> {
        validate(options)?;
        let selection = self.selection(request, options)?;
        if selection.looks_inside() {
            return self.list(request, options).await;
        }
        self.list_stored(request, options, &selection).await
    }

    /// A list whose selectors are about what a webhook makes of the objects: all are converted, and then selected.
    async fn list_converted(
        &self,
        request: &RequestContext<'_>,
        options: &ListOptions,
        selection: &Selection,
    ) -> Result<List, Status> {
        let root = selection.scope.prefix(request.storage()?);
        let (outside, limit) = (selection.outside(), usize::try_from(options.limit).unwrap_or(0));
        let wanted = options;
        let mut options = options.clone();
        if limit > 0 {
            options.limit = options.limit.max(CONVERTED_AT_ONCE);
        }
        let mut found = Vec::new();
        loop {
            let mut page = self.list_stored(request, &options, &outside).await?;
            self.convert_list(request, wanted, &mut page.items).await?;
            let mut seen = page.items.into_iter();
            while limit == 0 || found.len() < limit {
                let Some(obj) = seen.next() else { break };
                if selection.matches_selectors(&obj) {
                    found.push(obj);
                }
            }
            let revision = page.revision;
            let more = page.continue_token.is_some() || seen.len() > 0;
            if limit > 0 && found.len() >= limit && more {
                let page = Page { items: found, revision, more, remaining: None, unreadable: None };
                return Ok(finish(page, &root));
            }
            let Some(token) = page.continue_token else {
                return Ok(List { items: found, revision, continue_token: None, remaining: None });
            };
            options.continue_token = token;
            options.resource_version.clear();
            options.resource_version_match.clear();
        }
    }

    /// A list of objects as they are stored.
    async fn list_stored(
        &self,
        request: &RequestContext<'_>,
        options: &ListOptions,
        selection: &Selection,
    ) -> Result<List, Status> {
        let storage = request.storage()?;
        let root = selection.scope.prefix(storage);
        // Upstream's cache returns the whole list if any version will do; objects with a TTL are in no cache.
        let any_version = options.resource_version == "0" && storage.ttl_seconds.is_none();
        let limit = if any_version { 0 } else { usize::try_from(options.limit).unwrap_or(0) };

        if !options.continue_token.is_empty() {
            if !options.resource_version.is_empty() && options.resource_version != "0" {
                return Err(Status::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            let token = Token::decode(&options.continue_token)?;
            let after = format!("{root}{}", token.after);
            let at = token.revision.map(Revision);
            if at.is_none() {
                self.linearizable_read().await?;
            }
            let behind = PageStart { key: &after, left: token.left };
            return match self.table().list(storage.id, selection, at, Some(behind), limit) {
                Ok(page) => Ok(finish(readable(page)?, &root)),
                Err(ReadError::Expired { .. }) => Err(continue_expired(token)),
                Err(ReadError::Future { current }) => {
                    Err(Status::too_large_resource_version(at.unwrap_or_default().0, current.0))
                }
                Err(ReadError::Undefined) => Err(redefined(storage)),
            };
        }

        // A page with a version and no resourceVersionMatch: exactly that version, for compatibility.
        let exact = match options.resource_version_match.as_str() {
            "" => options.limit > 0,
            matching => matching == "Exact",
        };
        let at = match parse_version(&options.resource_version)? {
            None => {
                self.linearizable_read().await?;
                None
            }
            Some(0) => None,
            Some(n) => {
                self.wait_until(Revision(n)).await?;
                exact.then_some(Revision(n))
            }
        };
        match self.table().list(storage.id, selection, at, None, limit) {
            Ok(page) => Ok(finish(readable(page)?, &root)),
            Err(ReadError::Expired { .. }) => {
                Err(Status::expired("The resourceVersion for the provided list is too old."))
            }
            Err(ReadError::Future { current }) => {
                Err(Status::too_large_resource_version(at.unwrap_or_default().0, current.0))
            }
            Err(ReadError::Undefined) => Err(redefined(storage)),
        }
    }

    /// Waits a little for a revision other servers may have reached already.
    pub(crate) async fn wait_until(&self, revision: Revision) -> Result<(), Status> {
        if self.table().revision() >= revision {
            return Ok(());
        }
        let waited = self.env().timeout(WAIT_FOR_REVISION, self.table().wait_for(revision)).await;
        waited.map_err(|_| Status::too_large_resource_version(revision.0, self.table().revision().0))
    }

    pub(crate) fn selection(
        &self,
        request: &RequestContext<'_>,
        options: &ListOptions,
    ) -> Result<Selection, Status> {
        let scope = if request.namespace.is_empty() {
            Scope::All
        } else {
            Scope::Namespace(request.namespace.to_owned())
        };
        let labels = match options.label_selector.as_str() {
            "" => None,
            text => Some(LabelSelector::parse(text).map_err(Status::bad_request)?),
        };
        let fields = match options.field_selector.as_str() {
            "" => None,
            text => Some(FieldSelector::parse(text).map_err(Status::bad_request)?),
        };
        let selected = Selection::new(request.resource, scope, labels, fields.as_ref());
        let mut selection = selected.map_err(|unknown| {
            let words = match &*request.resource.unknown_field {
                "" => "{q} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                own => own,
            };
            Status::bad_request(match words.split_once("{q}") {
                Some((before, after)) => format!("{before}{}{after}", quote(&unknown)),
                None => words.replacen("{}", &unknown, 1),
            })
        })?;
        // A list of all namespaces that selects one namespace is a list of that one.
        if request.resource.namespaced
            && selection.scope == Scope::All
            && let Some(namespace) = selection.exact_namespace()
            && object::validate_text::dns1123_label(namespace).is_empty()
        {
            selection.scope = Scope::Namespace(namespace.to_owned());
        }
        Ok(selection)
    }
}

/// A read that is content with any version is content with an earlier conversion.
fn asked(resource_version: &str) -> Asked {
    if resource_version == "0" { Asked::Once } else { Asked::Now }
}

/// A partial list must never look like a complete one.
pub(crate) fn readable(page: Page) -> Result<Page, Status> {
    match page.unreadable {
        Some(unreadable) => Err(not_readable(unreadable)),
        None => Ok(page),
    }
}

/// Rules among the options themselves, all violations at once.
pub fn validate(options: &ListOptions) -> Result<(), Status> {
    let mut errors = Vec::new();
    let matching = options.resource_version_match.as_str();
    let forbid = |why: &str| FieldError::forbidden("resourceVersionMatch", why);
    if options.watch {
        if options.send_initial_events.is_some() && matching != "NotOlderThan" {
            errors.push(forbid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
        }
        if !matching.is_empty() {
            if options.send_initial_events.is_none() {
                errors.push(forbid(
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                ));
            }
            if matching != "NotOlderThan" {
                errors.push(FieldError::not_supported(
                    "resourceVersionMatch",
                    quote(matching),
                    &["NotOlderThan"],
                ));
            }
            if !options.continue_token.is_empty() {
                errors.push(forbid("resourceVersionMatch is forbidden when continue is provided"));
            }
        }
    } else {
        if !matching.is_empty() {
            if options.resource_version.is_empty() {
                errors.push(forbid("resourceVersionMatch is forbidden unless resourceVersion is provided"));
            }
            if !options.continue_token.is_empty() {
                errors.push(forbid("resourceVersionMatch is forbidden when continue is provided"));
            }
            if matching != "Exact" && matching != "NotOlderThan" {
                let supported = ["Exact", "NotOlderThan", ""];
                errors.push(FieldError::not_supported("resourceVersionMatch", quote(matching), &supported));
            }
            if matching == "Exact" && options.resource_version == "0" {
                errors.push(forbid("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""));
            }
        }
        if options.send_initial_events.is_some() {
            errors
                .push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid("meta.k8s.io", "ListOptions", "", errors)) }
}

/// `None` when unset.
pub(crate) fn parse_version(text: &str) -> Result<Option<u64>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    parse_unsigned(text).map(Some).map_err(|why| {
        Status::bad_request(format!(
            "invalid resource version: {}",
            FieldError::invalid("resourceVersion", quote(text), why)
        ))
    })
}

/// A refusal of [`parse_version`] with the message and code of upstream's cache.
pub(crate) fn as_cache_error(status: &Status) -> Status {
    Status::unknown(status.message.trim_start_matches("invalid resource version: "))
}

/// A number as Go parses it, or Go's error message.
pub(crate) fn parse_unsigned(text: &str) -> Result<u64, String> {
    // Rust takes a sign here, Go does not.
    let parsed = if text.starts_with('+') { "+".parse() } else { text.parse() };
    parsed.map_err(|error: ParseIntError| {
        format!("strconv.ParseUint: parsing {}: {}", quote(text), number_error(&error))
    })
}

/// 410 for a revision below the history.
pub(crate) fn too_old(wanted: Revision, floor: Revision) -> Status {
    Status::expired(format!("too old resource version: {wanted} ({floor})"))
}

fn finish(page: Page, root: &str) -> List {
    let continue_token = match page.items.last() {
        Some(last) if page.more => {
            let after = last.key().strip_prefix(root).unwrap_or(last.key()).to_owned();
            Some(Token { revision: Some(page.revision.0), after, left: page.remaining }.encode())
        }
        _ => None,
    };
    List { items: page.items, revision: page.revision, continue_token, remaining: page.remaining }
}

/// The snapshot of a paged list is gone: 410, with a token to go on inconsistently.
fn continue_expired(token: Token) -> Status {
    let mut status = Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list \
         without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
         results. Continuing with the provided token results in an inconsistent list - objects that were created, \
         modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    // The remaining objects were not counted.
    status.continue_token = Some(Token { revision: None, left: None, ..token }.encode());
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_contradict_each_other_are_all_named() {
        let list = |set: fn(&mut ListOptions)| {
            let mut options = ListOptions::default();
            set(&mut options);
            validate(&options).err().map(|status| status.message)
        };
        assert_eq!(list(|_| ()), None);
        assert_eq!(list(|o| (o.watch, o.allow_bookmarks) = (true, true)), None);
        let message = list(|o| o.resource_version_match = "Exact".into()).unwrap();
        assert!(message.contains("resourceVersionMatch is forbidden unless resourceVersion is provided"));
        let message = list(|o| {
            o.resource_version = "0".into();
            o.resource_version_match = "Exact".into();
            o.send_initial_events = Some(true);
        });
        let message = message.unwrap();
        assert!(message.contains("\"exact\" is forbidden for resourceVersion \"0\""), "{message}");
        assert!(message.contains("sendInitialEvents is forbidden for list"), "{message}");
        let message = list(|o| (o.watch, o.send_initial_events) = (true, Some(true))).unwrap();
        assert!(message.contains("requires setting resourceVersionMatch to NotOlderThan"), "{message}");
    }

    #[test]
    fn versions_are_parsed_as_go_parses_unsigned_numbers() {
        assert_eq!(parse_version("").unwrap(), None);
        assert_eq!(parse_version("7").unwrap(), Some(7));
        for odd in ["+7", "-1", "7a", " 7", "99999999999999999999"] {
            let status = parse_version(odd).unwrap_err();
            assert_eq!(status.code, 400, "{odd}");
            assert!(status.message.contains("strconv.ParseUint: parsing"), "{}", status.message);
        }
    }

    #[test]
    fn an_expired_page_goes_on_inconsistently_behind_the_same_key() {
        let status = continue_expired(Token { revision: Some(7), after: "default/a".into(), left: Some(3) });
        let token = Token::decode(status.continue_token.as_deref().unwrap()).unwrap();
        assert_eq!(token, Token { revision: None, after: "default/a".into(), left: None });
    }
}
