//! Resources that are answered and not stored: access reviews and the like.

use auth::{Attributes, UserInfo, reviews};
use catalog::Resource;
use object::{Map, Status, Value};
use registry::BodyType;

use super::Call;
use crate::api::Api;
use crate::body::RequestBody;
use crate::negotiate::{Offer, negotiate};
use crate::respond::Answer;
use crate::views;

/// Metadata that clients cannot set.
const OURS: [&str; 5] =
    ["creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"];

impl Call<'_> {
    pub(super) async fn review(&self, body: RequestBody) -> Result<Answer, Status> {
        let wanted = negotiate(&self.parts.headers, self.query, Offer::Part)?;
        let of = BodyType::of(self.request.resource);
        let (mut review, mut warnings) = self.asked(body, of).await?;
        for ours in OURS {
            review.map_at(&["metadata"]).remove(ours);
        }
        review.make_map().set("kind", of.kind);
        review.make_map().set("apiVersion", self.request.resource.api_version());
        let writing = self.writing(None)?;
        let registry = &self.api.registry;
        registry.track_answered(&writing, of, &mut review);
        let Call { api, request, .. } = self;
        let answer = async {
            registry.mutate_review(&writing, &mut review, &mut warnings).await?;
            let asked = review.clone();
            let answer =
                answer_review(api, request.user, request.resource, request.namespace, review).await?;
            // What it asks is checked first, as upstream does; answering changes nothing.
            registry.validate_review(&writing, &asked, &mut warnings).await?;
            Ok::<_, Status>(answer)
        };
        match answer.await {
            Ok(answer) => Ok(self.answered(of, answer, wanted, &warnings)),
            Err(status) => Err(status.after_warnings(warnings)),
        }
    }
}

/// The review with its status.
pub(crate) async fn answer_review(
    api: &Api,
    user: &UserInfo,
    resource: &Resource,
    namespace: &str,
    review: Value,
) -> Result<Value, Status> {
    let authorize = |user: &UserInfo, wanted: &Attributes<'_>| api.authorizer.authorize(user, wanted);
    match resource.plural.as_str() {
        "selfsubjectaccessreviews" => reviews::self_subject_access_review(review, user, &authorize),
        "subjectaccessreviews" => reviews::subject_access_review(review, &authorize),
        "localsubjectaccessreviews" => reviews::local_subject_access_review(review, namespace, &authorize),
        "selfsubjectrulesreviews" => {
            let rules_for = |user: &UserInfo, namespace: &str| api.authorizer.rules_for(user, namespace);
            reviews::self_subject_rules_review(&review, user, &rules_for)
        }
        "tokenreviews" => token_review(api, review).await,
        "selfsubjectreviews" => {
            let now = views::timestamp(api.registry.env().now_seconds());
            Ok(reviews::self_subject_review(user, &now))
        }
        other => Err(Status::unavailable(format!("{other} are not served by this version of setpoint yet"))),
    }
}

/// The user of a token. The answer repeats the spec, the token included.
async fn token_review(api: &Api, mut review: Value) -> Result<Value, Status> {
    let token = review.str_at(&["spec", "token"]).unwrap_or_default().to_owned();
    if token.is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    let asked = review.at(&["spec", "audiences"]).and_then(Value::as_list).unwrap_or_default();
    let mut audiences: Vec<String> = asked.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    if audiences.is_empty() {
        audiences = api.token_authenticator.service_accounts().audiences().to_vec();
    }
    let mut status = Map::default();
    // As in a header: the token ends at the first space, and a leading space leaves none.
    let header = format!("Bearer {token}");
    let word = header.trim().split(' ').nth(1).filter(|word| !word.is_empty());
    let Some(token) = word else {
        // Without a token the user is anonymous, which is no error.
        status.set("authenticated", true);
        status.set("user", reviews::user_to_value(&UserInfo::anonymous()));
        status.set("audiences", audiences.into_iter().map(Value::from).collect::<Vec<_>>());
        review.make_map().set("status", status);
        return Ok(review);
    };
    match api.token_authenticator.authenticate(&api.registry, token, &audiences).await {
        Ok(bearer) => {
            status.set("authenticated", true);
            status.set("user", reviews::user_to_value(&bearer.user));
            let audiences = bearer.audiences.into_iter().map(Value::from);
            status.set("audiences", audiences.collect::<Vec<_>>());
        }
        Err(why) => status.set("error", why),
    }
    review.make_map().set("status", status);
    Ok(review)
}
