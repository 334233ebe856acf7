// Starts `gdn lsp` and lets VS Code talk to it. Everything that is known of the YAML is the server's.
'use strict';

const vscode = require('vscode');
const { LanguageClient } = require('vscode-languageclient/node');

let client;

function start() {
  const command = vscode.workspace.getConfiguration('goondan').get('path', 'gdn');
  client = new LanguageClient(
    'goondan',
    'Goondan',
    { command, args: ['lsp'] },
    { documentSelector: [{ scheme: 'file', language: 'yaml' }] },
  );
  return client.start().catch((error) => {
    vscode.window.showErrorMessage(
      `Goondan: \`${command}\` can't be started: ${error.message}. Install gdn, or set goondan.path.`,
    );
  });
}

async function stop() {
  const running = client;
  client = undefined;
  // A client that never came up has nothing to stop.
  await running?.stop().catch(() => {});
}

async function restart() {
  await stop();
  await start();
}

exports.activate = (context) => {
  context.subscriptions.push(
    vscode.commands.registerCommand('goondan.restart', restart),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration('goondan.path')) restart();
    }),
  );
  return start();
};

exports.deactivate = stop;
