use serde_json::{Value, json};
use wiremock::matchers::{body_json, method, path, query_param};
use wiremock::{Mock, ResponseTemplate};

use crate::chat::{TOKEN, platform_of};
use crate::mock_engine::with_unknown;

const MARKER: &str = "<!-- answered by gdn -->";
const COMMIT: &str = "6dcb09b5b57875f334f61aebed695e2e4193db5e";

fn with_marker(text: &str) -> Value {
    json!(format!("{text}\n\n{MARKER}"))
}

#[tokio::test]
async fn agent_comments_contain_a_marker() {
    let made =
        json!({"id": 1, "html_url": "https://github.com/octo/hello/issues/7#issuecomment-1"});
    let rows = [
        (
            "POST",
            "/repos/octo/hello/issues/7/comments",
            json!({"body": with_marker("Fixed.")}),
            made.clone(),
        ),
        (
            "PATCH",
            "/repos/octo/hello/issues/comments/1",
            json!({"body": with_marker("Mended.")}),
            made.clone(),
        ),
        (
            "PATCH",
            "/repos/octo/hello/pulls/comments/2",
            json!({"body": with_marker("Mended.")}),
            made,
        ),
        (
            "DELETE",
            "/repos/octo/hello/issues/comments/1",
            Value::Null,
            Value::Null,
        ),
    ];
    let (server, engine) = platform_of(&rows).await;
    let comment = json!({"repository": "octo/hello", "number": 7, "text": "Fixed.\n"});
    let made = engine.ok("github__comment", comment).await;
    assert_eq!(made["commentId"], 1);
    // A marker that the text already contains is not duplicated.
    let edit =
        json!({"repository": "octo/hello", "commentId": 1, "text": format!("Mended.\n\n{MARKER}")});
    assert_eq!(engine.ok("github__editComment", edit).await["edited"], true);
    let edit = json!({"repository": "octo/hello", "commentId": 2, "text": "Mended.", "kind": "reviewComment"});
    engine.ok("github__editComment", edit).await;
    let delete = json!({"repository": "octo/hello", "commentId": 1});
    assert_eq!(
        engine.ok("github__deleteComment", delete).await["deleted"],
        true
    );
    for request in server.received_requests().await.unwrap() {
        assert_eq!(request.headers["authorization"], format!("Bearer {TOKEN}"));
        assert_eq!(request.headers["x-github-api-version"], "2022-11-28");
    }
}

#[tokio::test]
async fn an_issue_can_be_read_labeled_and_closed() {
    let issue = json!({
        "id": 10, "number": 7, "title": "It breaks", "state": "open", "state_reason": null, "body": "Help!",
        "user": {"login": "ada", "id": 1}, "labels": [{"id": 1, "name": "bug"}], "comments": 1,
        "created_at": "2026-01-02T03:04:05Z", "html_url": "https://github.com/octo/hello/issues/7", "reactions": {"+1": 0},
    });
    let rows = [
        ("GET", "/repos/octo/hello/issues/7", Value::Null, issue),
        (
            "POST",
            "/repos/octo/hello/issues/7/labels",
            json!({"labels": ["bug"]}),
            json!([{"name": "bug"}]),
        ),
        (
            "DELETE",
            "/repos/octo/hello/issues/7/labels/to%20do%2Fnow",
            Value::Null,
            json!([]),
        ),
        (
            "PATCH",
            "/repos/octo/hello/issues/7",
            json!({"state": "closed", "state_reason": "not_planned"}),
            json!({"state": "closed"}),
        ),
        (
            "POST",
            "/repos/octo/hello/issues/7/reactions",
            json!({"content": "+1"}),
            json!({"id": 3}),
        ),
        (
            "POST",
            "/repos/octo/hello/pulls/comments/2/reactions",
            json!({"content": "eyes"}),
            json!({"id": 4}),
        ),
    ];
    let (server, engine) = platform_of(&rows).await;
    let comments = json!([{
        "id": 1, "user": {"login": "grace"}, "created_at": "2026-01-03T03:04:05Z", "body": format!("Me, too.\n\n{MARKER}"),
    }]);
    Mock::given(method("GET"))
        .and(path("/repos/octo/hello/issues/7/comments"))
        .and(query_param("per_page", "30"))
        .and(query_param("page", "2"))
        .respond_with(ResponseTemplate::new(200).set_body_json(comments))
        .mount(&server)
        .await;
    let gone = json!({"message": "Label does not exist", "status": "404"});
    Mock::given(path("/repos/octo/hello/issues/7/labels/gone"))
        .respond_with(ResponseTemplate::new(404).set_body_json(gone))
        .mount(&server)
        .await;
    let read = engine
        .ok(
            "github__read",
            json!({"repository": "octo/hello", "number": 7, "page": 2}),
        )
        .await;
    let facts = json!([
        read["title"],
        read["state"],
        read["author"],
        read["labels"],
        read["isPullRequest"]
    ]);
    assert_eq!(facts, json!(["It breaks", "open", "ada", ["bug"], false]));
    let expected = json!([{"commentId": 1, "author": "grace", "createdAt": "2026-01-03T03:04:05Z", "text": "Me, too."}]);
    assert_eq!(read["comments"], expected);
    let label = json!({"repository": "octo/hello", "number": 7, "add": ["bug"], "remove": ["to do/now", "gone"]});
    assert_eq!(
        engine.ok("github__label", label).await["added"],
        json!(["bug"])
    );
    let close =
        json!({"repository": "octo/hello", "number": 7, "state": "closed", "reason": "notPlanned"});
    assert_eq!(
        engine.ok("github__setState", close).await["state"],
        "closed"
    );
    let react = json!({"repository": "octo/hello", "number": 7, "reaction": "+1"});
    assert_eq!(engine.ok("github__react", react).await["reactionId"], 3);
    let react = json!({"repository": "octo/hello", "commentId": 2, "kind": "reviewComment", "reaction": "eyes"});
    assert_eq!(engine.ok("github__react", react).await["reactionId"], 4);
}

#[tokio::test]
async fn a_pull_request_is_reviewed_and_its_commit_gets_a_status() {
    let rows = [
        (
            "GET",
            "/repos/octo/hello/pulls/8",
            Value::Null,
            json!({"number": 8, "head": {"sha": COMMIT}}),
        ),
        (
            "POST",
            "/repos/octo/hello/pulls/8/comments",
            json!({
                "body": with_marker("Why?"), "commit_id": COMMIT, "path": "a.rs", "line": 5, "side": "RIGHT", "start_line": 3,
                "start_side": "RIGHT",
            }),
            json!({"id": 20}),
        ),
        (
            "POST",
            "/repos/octo/hello/pulls/8/comments/20/replies",
            json!({"body": with_marker("I see.")}),
            json!({"id": 21}),
        ),
        (
            "POST",
            "/repos/octo/hello/pulls/8/reviews",
            json!({"event": "REQUEST_CHANGES", "body": with_marker("Not yet.")}),
            json!({"id": 30, "state": "CHANGES_REQUESTED"}),
        ),
        (
            "POST",
            "/repos/octo/hello/statuses/6dcb09b5b57875f334f61aebed695e2e4193db5e",
            json!({"state": "success", "context": "review", "description": "fine"}),
            json!({"id": 40, "state": "success"}),
        ),
    ];
    let (_server, engine) = platform_of(&rows).await;
    let at = json!({"repository": "octo/hello", "number": 8, "text": "Why?", "file": "a.rs", "line": 5, "startLine": 3});
    assert_eq!(
        engine.ok("github__reviewComment", at).await["commentId"],
        20
    );
    let reply = json!({"repository": "octo/hello", "number": 8, "text": "I see.", "inReplyTo": 20});
    assert_eq!(
        engine.ok("github__reviewComment", reply).await["commentId"],
        21
    );
    let review = json!({"repository": "octo/hello", "number": 8, "verdict": "requestChanges", "text": "Not yet."});
    assert_eq!(
        engine.ok("github__review", review).await["state"],
        "CHANGES_REQUESTED"
    );
    let status = json!({
        "repository": "octo/hello", "commit": COMMIT, "state": "success", "context": "review", "description": "fine",
    });
    assert_eq!(
        engine.ok("github__status", status).await["state"],
        "success"
    );
}

#[tokio::test]
async fn github_reports_refusals_and_rejects_invalid_arguments() {
    let (server, engine) = platform_of(&[]).await;
    let refusal =
        json!({"message": "Resource not accessible by personal access token", "status": "403"});
    Mock::given(path("/repos/octo/hello/issues/7"))
        .and(body_json(json!({"state": "open"})))
        .respond_with(ResponseTemplate::new(403).set_body_json(refusal))
        .mount(&server)
        .await;
    let (code, text) = engine
        .err(
            "github__setState",
            json!({"repository": "octo/hello", "number": 7, "state": "open"}),
        )
        .await;
    assert_eq!(
        (code.as_str(), text.contains("not accessible")),
        ("E_TOOL_HTTP", true),
        "{text}"
    );
    let issue = |more: Value| {
        let mut args = json!({"repository": "octo/hello", "number": 7});
        args.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        args
    };
    let cases = [
        (
            "github__comment",
            json!({"repository": "../../user", "number": 7, "text": "x"}),
        ),
        (
            "github__comment",
            json!({"repository": "octo/..", "number": 7, "text": "x"}),
        ),
        (
            "github__comment",
            json!({"repository": "octo/hello/issues", "number": 7, "text": "x"}),
        ),
        ("github__comment", issue(json!({"text": ""}))),
        (
            "github__comment",
            issue(json!({"text": "x", "token": "other"})),
        ),
        ("github__comment", with_unknown(issue(json!({"text": "x"})))),
        ("github__label", issue(json!({}))),
        // The empty name would remove all labels.
        ("github__label", issue(json!({"remove": [".."]}))),
        ("github__label", issue(json!({"remove": [""]}))),
        ("github__setState", issue(json!({"state": "merged"}))),
        (
            "github__setState",
            issue(json!({"state": "open", "reason": "completed"})),
        ),
        ("github__react", issue(json!({"reaction": "tada"}))),
        (
            "github__react",
            issue(json!({"commentId": 1, "reaction": "eyes"})),
        ),
        (
            "github__reviewComment",
            issue(json!({"text": "x", "file": "a"})),
        ),
        (
            "github__reviewComment",
            issue(json!({"text": "x", "file": "a", "line": 1, "inReplyTo": 2})),
        ),
        ("github__review", issue(json!({"verdict": "comment"}))),
        (
            "github__status",
            json!({"repository": "octo/hello", "commit": "main", "state": "success", "context": "c"}),
        ),
        (
            "github__read",
            json!({"repository": "octo/hello", "number": 0}),
        ),
    ];
    for (tool, args) in cases {
        let (code, text) = engine.err(tool, args).await;
        assert_eq!(code, "E_TOOL_INVALID_ARGS", "{tool}: {text}");
    }
    assert_eq!(server.received_requests().await.unwrap().len(), 1);
}
