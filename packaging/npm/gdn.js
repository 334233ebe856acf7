#!/usr/bin/env node
// Becomes the binary of this system as far as Node.js lets it: the same streams, signals and exit code.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

// Whoever has the other C library can often run the binary all the same, so it is the second choice.
function packages() {
  const name = `@goondan/gdn-${process.platform}-${process.arch}`;
  if (process.platform !== "linux") return [name];
  const hasGlibc = Boolean(process.report?.getReport().header.glibcVersionRuntime);
  return hasGlibc ? [name, `${name}-musl`] : [`${name}-musl`, name];
}

function binary() {
  const file = process.platform === "win32" ? "bin/gdn.exe" : "bin/gdn";
  for (const name of packages()) {
    try {
      return require.resolve(`${name}/${file}`);
    } catch {
      // Not installed: the next one may be.
    }
  }
  console.error(
    `gdn: there is no binary for ${process.platform} ${process.arch}. npm installs it as the optional dependency ` +
      `${packages()[0]}. Install again without --omit=optional, or see https://github.com/goondan/gdn for other ways.`,
  );
  process.exit(1);
}

const child = spawn(binary(), process.argv.slice(2), { stdio: "inherit" });
child.on("error", (error) => {
  console.error(`gdn: the binary can't be started: ${error.message}`);
  process.exit(1);
});

// A terminal sends its signals to the binary, too. One that is passed on would count twice, and the second Ctrl-C ends a swarm
// without waiting for its turns.
const hasTerminal = [0, 1, 2].some((fd) => require("node:tty").isatty(fd));
const ofTerminal = ["SIGINT", "SIGQUIT", "SIGHUP"];
for (const signal of [...ofTerminal, "SIGTERM"]) {
  try {
    process.on(signal, () => {
      if (!(hasTerminal && ofTerminal.includes(signal))) child.kill(signal);
    });
  } catch {
    // Windows has only some of them.
  }
}

child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  // It was ended by a signal, and so is this.
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
  setTimeout(() => process.exit(128 + (constants.signals[signal] ?? 0)), 1000);
});
