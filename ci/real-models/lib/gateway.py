"""A LiteLLM gateway in front of an OpenAI-compatible server."""

import json
import os

import checks
from checks import Format, Target
from services import Service

KEY = "sk-real-models"
# Makes LiteLLM use the tables in its package and not download newer ones.
LOCAL_DATA = ("LITELLM_LOCAL_MODEL_COST_MAP", "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "LITELLM_LOCAL_BLOG_POSTS")
FORMATS = {
    "chat": Format("chat", "openai-compatible", "/v1"),
    "responses": Format("responses", "openai", "/v1", {"api": "responses"}),
    "messages": Format("messages", "anthropic", "/v1"),
    "gemini": Format("gemini", "google", "/v1beta"),
}
# LiteLLM sends chat and Gemini to the chat completions of the backend. The model's prefix decides about responses and messages: `openai`
# sends them to the responses of the backend, `custom_openai` to its chat completions.
PREFIXES = {"native": "openai", "bridged": "custom_openai"}
ROUTES = [
    ("chat", "native"),
    ("gemini", "native"),
    ("responses", "native"),
    ("messages", "native"),
    ("responses", "bridged"),
    ("messages", "bridged"),
]


def gateway(venv, folder, backend, model):
    """Returns the service. Its models are the two routes to the backend."""
    config = {
        "model_list": [
            {"model_name": route, "litellm_params": {"model": f"{prefix}/{model}", "api_base": f"{backend.url}/v1", "api_key": backend.key}}
            for route, prefix in PREFIXES.items()
        ],
        "litellm_settings": {"telemetry": False},
        "general_settings": {"master_key": KEY},
    }
    path = os.path.join(folder, "litellm.yaml")
    with open(path, "w") as file:
        json.dump(config, file)
    env = {**os.environ, **dict.fromkeys(LOCAL_DATA, "True"), "NO_PROXY": "*", "HOME": folder}
    command = [os.path.join(venv, "bin", "litellm"), "--config", path, "--host", "127.0.0.1", "--port", "{port}"]
    return Service("LiteLLM", command, "/health/liveliness", os.path.join(folder, "litellm.log"), KEY, env)


def targets(server, label, asks, obeyed=lambda form, route: True):
    """Returns the targets of all formats and routes. `obeyed` states for which of them the backend obeys a schema."""
    return [Target(f"{label}/{form}-{route}", server, route, FORMATS[form], asks, obeyed(form, route)) for form, route in ROUTES]


def restarts(report, targets, server, backend, *loading):
    """Kills the backend, then the gateway, in the middle of an answer of each target."""
    checks.survive(report, "backend-restart", targets, checks.DOWN_SECONDS, backend.kill, lambda: backend.start(*loading))
    checks.survive(report, "gateway-restart", targets, checks.DOWN_SECONDS, server.kill, server.start)
