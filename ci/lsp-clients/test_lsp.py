"""The language server as pytest-lsp sees it: every message is checked against the types of the protocol."""

import json
import os
import pathlib
import subprocess

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

GDN = os.environ["GDN"]
PROJECT = pathlib.Path(os.environ["PROJECT"])
MAIN = PROJECT / "goondan.yaml"
SWARM = PROJECT / "resources" / "swarm.yaml"


@pytest_lsp.fixture(params=["neovim", "visual_studio_code"], config=ClientServerConfig(server_command=[GDN, "lsp"]))
async def client(request, lsp_client: LanguageClient):
    # pytest-lsp does not do these parts of its description of VS Code.
    @lsp_client.feature(types.CLIENT_REGISTER_CAPABILITY)
    def register(_: types.RegistrationParams):
        return None

    params = types.InitializeParams(capabilities=client_capabilities(request.param))
    await lsp_client.initialize_session(params)
    yield
    await lsp_client.shutdown_session()


def opened(client, path, text):
    item = types.TextDocumentItem(uri=path.as_uri(), language_id="yaml", version=1, text=text)
    client.text_document_did_open(types.DidOpenTextDocumentParams(text_document=item))


def at(text, word, behind=0):
    before = text[: text.index(word) + behind]
    return types.Position(line=before.count("\n"), character=len(before) - before.rfind("\n") - 1)


def document(path):
    return types.TextDocumentIdentifier(uri=path.as_uri())


@pytest.mark.asyncio
async def test_diagnostics_are_those_of_validate(client):
    text = MAIN.read_text()
    opened(client, MAIN, text)
    await client.wait_for_notification("textDocument/publishDiagnostics")
    found = client.diagnostics[MAIN.as_uri()]
    output = subprocess.run([GDN, "validate", "--json", str(PROJECT)], capture_output=True, check=False)
    validated = json.loads(output.stdout)
    expected = {(one["code"], one["line"] - 1, one["column"] - 1) for one in validated["errors"] + validated["warnings"]}
    assert {(one.code, one.range.start.line, one.range.start.character) for one in found} == expected
    assert expected, "the project has a mistake"
    wanted = types.CodeActionParams(
        text_document=document(MAIN), range=found[0].range, context=types.CodeActionContext(diagnostics=list(found))
    )
    actions = await client.text_document_code_action_async(wanted)
    assert actions[0].edit.changes[MAIN.as_uri()][0].new_text == "Tool/file-system"


@pytest.mark.asyncio
async def test_what_is_asked_while_somebody_types(client):
    text = MAIN.read_text().replace("Tool/file-systm", "Tool/").replace("modelConfig:", "oh: [\n  modelConfig:")
    opened(client, MAIN, text)
    await client.wait_for_notification("textDocument/publishDiagnostics")
    place = at(text, "Tool/", len("Tool/"))
    answer = await client.text_document_completion_async(
        types.CompletionParams(text_document=document(MAIN), position=place)
    )
    assert "Tool/file-system" in [item.label for item in answer.items]
    hover = await client.text_document_hover_async(
        types.HoverParams(text_document=document(MAIN), position=at(text, "modelRef"))
    )
    assert "The Model to use" in hover.contents.value


@pytest.mark.asyncio
async def test_a_rename_reaches_all_files(client):
    text = MAIN.read_text()
    opened(client, MAIN, text)
    await client.wait_for_notification("textDocument/publishDiagnostics")
    place = at(text, "writer")
    answer = await client.text_document_rename_async(
        types.RenameParams(text_document=document(MAIN), position=place, new_name="author")
    )
    assert {uri: len(edits) for uri, edits in answer.changes.items()} == {MAIN.as_uri(): 1, SWARM.as_uri(): 2}
    found = await client.text_document_references_async(
        types.ReferenceParams(
            text_document=document(MAIN), position=place, context=types.ReferenceContext(include_declaration=True)
        )
    )
    assert len(found) == 3
    target = await client.text_document_definition_async(
        types.DefinitionParams(text_document=document(MAIN), position=at(text, "Model/main", 7))
    )
    assert target[0].range.start == at(text, "main}")


@pytest.mark.asyncio
async def test_symbols(client):
    opened(client, MAIN, MAIN.read_text())
    await client.wait_for_notification("textDocument/publishDiagnostics")
    symbols = await client.text_document_document_symbol_async(
        types.DocumentSymbolParams(text_document=document(MAIN))
    )
    assert [symbol.name for symbol in symbols] == ["main", "writer"]
    found = await client.workspace_symbol_async(types.WorkspaceSymbolParams(query="swarm"))
    assert [symbol.name for symbol in found] == ["default"]
