// The language server as VS Code's own library sees it: a mistake, its repair, and the project without it.
'use strict';

const assert = require('node:assert');
const { spawn } = require('node:child_process');
const { readFileSync } = require('node:fs');
const path = require('node:path');
const { pathToFileURL } = require('node:url');
const protocol = require('vscode-languageserver-protocol/node');

const project = process.env.PROJECT;
const uri = pathToFileURL(path.join(project, 'goondan.yaml')).toString();
const text = readFileSync(path.join(project, 'goondan.yaml'), 'utf8');

const server = spawn(process.env.GDN, ['lsp'], { stdio: ['pipe', 'pipe', 'inherit'] });
const connection = protocol.createProtocolConnection(
  new protocol.StreamMessageReader(server.stdout),
  new protocol.StreamMessageWriter(server.stdin),
);

let waiting = () => {};
const published = () => new Promise((resolve) => (waiting = resolve));
connection.onNotification(protocol.PublishDiagnosticsNotification.type, (params) => {
  if (params.uri === uri) waiting(params.diagnostics);
});
const registered = new Promise((resolve) => {
  connection.onRequest(protocol.RegistrationRequest.type, (params) => resolve(params.registrations));
});
connection.listen();

function place(word) {
  const before = text.slice(0, text.indexOf(word));
  return { line: before.split('\n').length - 1, character: before.length - before.lastIndexOf('\n') - 1 };
}

async function main() {
  const capabilities = { workspace: { didChangeWatchedFiles: { dynamicRegistration: true } } };
  const hello = await connection.sendRequest(protocol.InitializeRequest.type, { processId: null, rootUri: null, capabilities });
  assert.equal(hello.capabilities.positionEncoding, 'utf-16');
  await connection.sendNotification(protocol.InitializedNotification.type, {});
  assert.equal((await registered)[0].method, 'workspace/didChangeWatchedFiles');

  let next = published();
  await connection.sendNotification(protocol.DidOpenTextDocumentNotification.type, {
    textDocument: { uri, languageId: 'yaml', version: 1, text },
  });
  const [mistake] = await next;
  assert.equal(mistake.code, 'E_CONFIG_REF_NOT_FOUND');
  assert.deepEqual(mistake.range.start, place('Tool/file-systm'));
  assert.match(mistake.codeDescription.href, /errors\.md#/);

  const [action] = await connection.sendRequest(protocol.CodeActionRequest.type, {
    textDocument: { uri }, range: mistake.range, context: { diagnostics: [mistake] },
  });
  assert.ok(action.isPreferred);
  const [edit] = action.edit.changes[uri];
  next = published();
  await connection.sendNotification(protocol.DidChangeTextDocumentNotification.type, {
    textDocument: { uri, version: 2 }, contentChanges: [{ range: edit.range, text: edit.newText }],
  });
  assert.deepEqual((await next).filter((found) => found.severity === 1), []);

  const completion = await connection.sendRequest(protocol.CompletionRequest.type, {
    textDocument: { uri }, position: place('Model/main'),
  });
  assert.ok(completion.items.some((item) => item.label === 'Model/main'));
  const refused = connection.sendRequest(protocol.RenameRequest.type, {
    textDocument: { uri }, position: place('writer'), newName: 'No Name',
  });
  await assert.rejects(refused, /not a valid Agent name/);
  await connection.sendRequest(protocol.ShutdownRequest.type);
  await connection.sendNotification(protocol.ExitNotification.type);
  const code = await new Promise((resolve) => server.once('exit', resolve));
  assert.equal(code, 0);
  console.log('vscode: all right');
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
