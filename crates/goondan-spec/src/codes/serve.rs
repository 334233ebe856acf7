//! Codes of the server.

use super::shell;

codes! {
    /// A request carries no token, or a wrong one.
    SERVE_TOKEN = "E_SERVE_TOKEN" {
        why: "Every request to `gdn serve` needs the token of the server, and this one has none, or another one.",
        next: "Send the header `Authorization: Bearer TOKEN`. `gdn serve` prints where the token is when it starts.",
        more: Some("serving.md#who-may-talk-to-it"),
    }
    /// A request is for a foreign host name, or comes from a page of a foreign origin.
    SERVE_ORIGIN = "E_SERVE_ORIGIN" {
        why: "A page in a browser could use a server on the same machine without its owner's knowledge. So the server \
              answers only to host names and origins that it knows.",
        next: "Start `gdn serve` with `--allow-host NAME` or `--allow-origin ORIGIN` if the name or the page is yours.",
        more: Some("serving.md#who-may-talk-to-it"),
    }
    /// A request makes no sense.
    SERVE_REQUEST = "E_SERVE_REQUEST" {
        why: "The body or a parameter of the request is not what the address takes.",
        next: "Compare the request with what `/openapi.json` says of that address.",
        more: Some("serving.md#the-api"),
    }
    /// The body of a request is too large.
    SERVE_TOO_LARGE = "E_SERVE_TOO_LARGE" {
        why: "The body has more bytes than the server takes. It takes 32 MiB unless `--max-body` says otherwise.",
        next: "Send a smaller body, or put large data into a file and send its path.",
        more: Some("serving.md#limits"),
    }
    /// There is nothing at an address of the server.
    SERVE_NOT_FOUND = "E_SERVE_NOT_FOUND" {
        why: "The address is misspelt, or the thing that it names does not exist any more.",
        next: "See which addresses there are with `/openapi.json`.",
        more: Some("serving.md#the-api"),
    }
    /// What a request wants to change is over already.
    SERVE_CLOSED = "E_SERVE_CLOSED" {
        why: "The turn has ended, or the question was answered or withdrawn, before the request came.",
        next: "Nothing, as a rule. Somebody else was faster.",
        more: Some("serving.md#the-api"),
    }
    /// The address of the server can't be used.
    SERVE_ADDRESS = "E_SERVE_ADDRESS" {
        why: "Another program listens at this address, this machine does not have it, or it takes more rights.",
        example: shell("gdn serve --listen 127.0.0.1:80\n", "gdn serve --listen 127.0.0.1:4747\n"),
        next: "Choose another address with `--listen`. Port 0 takes any that is free.",
        more: Some("serving.md"),
    }
    /// A receiver of telemetry does not take what it is sent.
    TELEMETRY_RECEIVER = "E_TELEMETRY_RECEIVER" {
        why: "Nobody listens at the address of the receiver, or the receiver refuses what it is sent: it may speak gRPC alone at this port, or want a key.",
        example: shell("gdn logs --otlp\n", "gdn logs --otlp --json\n"),
        next: "Set `OTEL_EXPORTER_OTLP_ENDPOINT` to the HTTP port of the receiver, usually 4318. `OTEL_EXPORTER_OTLP_HEADERS` takes a key. With `--json`, the spans are printed instead.",
        more: Some("telemetry.md"),
    }
}
