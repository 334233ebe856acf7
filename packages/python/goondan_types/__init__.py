"""What gdn gives to tools and extensions in Python.

The pages docs/hosts.md and docs/extensions.md of gdn explain it. A test of gdn compares the members of these classes with those
that are there when a module runs.
"""

from __future__ import annotations

import threading
from typing import Any, Awaitable, Callable, Dict, List, Literal, Mapping, Optional, Protocol, TypeVar, Union, overload

__all__ = [
    "Agents",
    "ConversationLayerContext",
    "ConversationState",
    "ExtensionApi",
    "ExtensionEvents",
    "ExtensionState",
    "ExtensionTools",
    "Handler",
    "JsonObject",
    "LayerContext",
    "Logger",
    "Output",
    "Pipeline",
    "StepLayerContext",
    "ToolCallLayerContext",
    "ToolContext",
    "ToolRuntime",
    "TurnLayerContext",
]

JsonObject = Dict[str, Any]
"""A JSON object."""

Result = Any
"""What can be awaited in a coroutine, and is there at once in any other function."""

F = TypeVar("F", bound=Callable[..., Any])

LayerKind = Literal["turn", "step", "toolCall", "tool_call"]


class Logger(Protocol):
    """Writes log lines: a text, arguments for its `%`, and fields."""

    def debug(self, message: str, *args: Any, **fields: Any) -> None: ...
    def info(self, message: str, *args: Any, **fields: Any) -> None: ...
    def warning(self, message: str, *args: Any, **fields: Any) -> None: ...
    def warn(self, message: str, *args: Any, **fields: Any) -> None: ...
    def error(self, message: str, *args: Any, **fields: Any) -> None: ...
    def log(self, message: str, *args: Any, **fields: Any) -> None: ...


# ---- tools ----


class ToolRuntime(Protocol):
    """The other agents of the swarm, as a tool reaches them."""

    def request(
        self, target: str, event: Union[str, JsonObject], timeout_ms: Optional[int] = None, wait: bool = True
    ) -> Result: ...
    def send(self, target: str, event: Union[str, JsonObject]) -> Result: ...
    def spawn(self, target: str, instance_key: Optional[str] = None, cwd: Optional[str] = None) -> Result: ...
    def list(self, include_all: bool = False) -> Result: ...
    def catalog(self) -> Result: ...


class Output(Protocol):
    """A result with more than its value, which `ctx.output` makes."""

    output: Any
    title: Optional[str]
    metadata: Optional[JsonObject]
    attachments: Optional[List[JsonObject]]


class ToolContext(Protocol):
    """What a handler of a tool knows about its call, and what it may do."""

    agent_name: str
    instance_key: str
    turn_id: str
    trace_id: str
    tool_call_id: str
    message: JsonObject
    workdir: str
    project_dir: str
    permissions: List[str]
    timeout_ms: int
    config: JsonObject
    logger: Logger
    runtime: ToolRuntime
    cancelled: threading.Event

    def progress(self, title: str, **metadata: Any) -> None: ...
    def output(
        self,
        output: Any,
        title: Optional[str] = None,
        metadata: Optional[JsonObject] = None,
        attachments: Optional[List[JsonObject]] = None,
    ) -> Output: ...


Handler = Callable[[ToolContext, JsonObject], Any]
"""A handler of a tool: a function or a coroutine."""


# ---- extensions ----


class Pipeline(Protocol):
    """Where layers are registered; without a function it is a decorator."""

    @overload
    def register(self, kind: LayerKind, run: F, priority: float = 0) -> None: ...
    @overload
    def register(self, kind: LayerKind, run: None = None, priority: float = 0) -> Callable[[F], F]: ...


class ExtensionTools(Protocol):
    """Where tools are offered."""

    def register(self, item: Mapping[str, Any], handler: Handler) -> None: ...


class ExtensionState(Protocol):
    """What an extension keeps for a conversation: any JSON, `None` at first."""

    def get(self) -> Any: ...
    def set(self, value: Any) -> None: ...


class ExtensionEvents(Protocol):
    """Events of the runtime in this conversation, such as `turn.completed`, and events between its extensions."""

    def on(self, name: str, handler: Callable[..., Any]) -> Callable[[], None]: ...
    def emit(self, name: str, *args: Any) -> None: ...


class ExtensionApi(Protocol):
    """What an extension registers with, and for which conversation."""

    agent_name: str
    instance_key: str
    workdir: str
    project_dir: str
    config: JsonObject
    logger: Logger
    pipeline: Pipeline
    tools: ExtensionTools
    state: ExtensionState
    events: ExtensionEvents


class ConversationState(Protocol):
    """The conversation of a turn."""

    @property
    def base_messages(self) -> List[JsonObject]: ...
    @property
    def events(self) -> List[JsonObject]: ...
    @property
    def next_messages(self) -> List[JsonObject]: ...
    def to_llm_messages(self) -> List[JsonObject]: ...


class Agents(Protocol):
    """The other agents of the swarm, as a layer reaches them."""

    def request(
        self,
        target: str,
        input: Any = "",
        instance_key: Optional[str] = None,
        timeout_ms: Optional[int] = None,
        metadata: Optional[JsonObject] = None,
        wait: bool = True,
    ) -> Result: ...
    def send(
        self,
        target: str,
        input: Any = "",
        instance_key: Optional[str] = None,
        metadata: Optional[JsonObject] = None,
    ) -> Result: ...


class LayerContext(Protocol):
    """What all layers have."""

    agent_name: str
    instance_key: str
    turn_id: str
    trace_id: str
    metadata: JsonObject
    logger: Logger
    cancelled: threading.Event

    def next(self) -> Result: ...


class ConversationLayerContext(LayerContext, Protocol):
    """What layers around turns and steps have besides."""

    input_event: JsonObject
    runtime: JsonObject
    conversation_state: ConversationState
    agents: Agents

    def emit_message_event(self, event: Mapping[str, Any]) -> None: ...


class TurnLayerContext(ConversationLayerContext, Protocol):
    """What a layer around a turn sees."""


class StepLayerContext(ConversationLayerContext, Protocol):
    """What a layer around a step sees."""

    turn: JsonObject
    step_index: int
    step_id: str
    tool_catalog: List[JsonObject]


class ToolCallLayerContext(LayerContext, Protocol):
    """What a layer around a tool call sees."""

    step_index: int
    tool_name: str
    tool_call_id: str
    args: Any


Register = Union[
    Callable[[ExtensionApi], Union[None, Awaitable[None]]],
    Callable[[ExtensionApi, JsonObject], Union[None, Awaitable[None]]],
]
"""What the module of an extension has as `register`."""
