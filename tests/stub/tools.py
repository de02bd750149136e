"""Calls of tools: a tool is called where the request demands one, with arguments that fit its schema."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stub import errors
from stub.schemas import fitting_text


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the answer is made of."""

    name: str
    arguments: str
    """A JSON text."""


def demanded_call(body: Mapping[str, Any]) -> ToolCall | None:
    """Return the call that a request demands: of the tool it names, or of the first; None where it demands none.

    A tool's name and parameters stand in its member `function` (chats), or in itself (responses).

    Raises:
        ApiError: (400) a choice without tools, or of one that isn't among them.
    """
    choice, tools = body.get("tool_choice"), body.get("tools")
    if tools == []:
        message = "`tools` must not be an empty array. Either provide at least one tool or omit the field entirely."
        raise errors.bad_request(message, param="tools")
    if choice is None or choice == "none":
        return None
    if tools is None:
        raise errors.bad_request("When using `tool_choice`, `tools` must be set.", param="tool_choice")
    functions = {tool["name"]: tool for tool in map(_function, tools)}
    if choice == "auto":
        return None
    name = next(iter(functions)) if choice == "required" else _function(choice)["name"]
    if name not in functions:
        message = "The tool specified in `tool_choice` does not match any of the specified `tools`"
        raise errors.bad_request(message, param="tool_choice")
    return ToolCall(name, fitting_text(functions[name].get("parameters")))


def _function(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    function: Mapping[str, Any] = tool.get("function", tool)
    return function
