#!/usr/bin/env node
// The command `fastprobe`.

import { readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { Command, CommanderError } from 'commander';
import { FastprobeError } from '../errors.js';
import { listProbes, removeLeftovers } from '../probe/leftovers.js';
import { attach, launch, type SessionEnd } from '../probe/session.js';
import { parseCount, parseDuration, parsePid } from './arguments.js';
import { describeSessions, sessionFacts } from './list.js';
import { json } from './output.js';
import { specsOf, type WatchOptions, watch } from './watch.js';

const collect = (value: string, earlier: readonly string[]) => [...earlier, value];

/** The options that `attach` and `run` share. */
function withProbeOptions(command: Command): Command {
  return command
    .option('--at <location>', 'where: file.c:42, func, func+0x12, 0x401234, lib.so!func (repeatable)', collect, [])
    .option('--if <expression>', 'a C expression over the variables in scope: only when it holds it is a hit')
    .option('--print <expressions>', "C expressions to show at each hit, such as 'n, q->len' (default: the locals)")
    .option('--count', 'count hits and show nothing else')
    .option('--for <duration>', 'end after 500ms, 10s, 2m', parseDuration)
    .option('--max-hits <number>', 'end after so many hits of each probe', parseCount)
    .option('--json', 'print one JSON object per line');
}

function build(): Command {
  const { version } = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'));
  const program = new Command('fastprobe')
    .description('Probes for running native programs: about a nanosecond each, no recompiling, no restarting.')
    .version(version)
    .exitOverride()
    .configureOutput({ writeErr: () => {} });

  withProbeOptions(program.command('attach <pid>').description('put probes into a running process')).action(
    async (pid: string, options: WatchOptions) => {
      specsOf(options);
      await using session = await attach(parsePid(pid));
      await watch(session, options);
    },
  );
  withProbeOptions(
    program
      .command('run')
      .argument('<program...>', 'the program and its arguments, after --')
      .description('start a program with probes'),
  ).action(async (argv: string[], options: WatchOptions) => {
    specsOf(options);
    await using session = await launch(argv);
    const end = await watch(session, options);
    process.exitCode = exitCodeOf(end);
  });
  program
    .command('list <pid>')
    .description('show the probes in a process, also those of a fastprobe that has died')
    .option('--json', 'print one JSON object per line')
    .action((pid: string, options: { json?: boolean }) => {
      const sessions = listProbes(parsePid(pid));
      const lines = options.json ? sessions.map((session) => json(sessionFacts(session))) : describeSessions(sessions);
      for (const line of lines) console.log(line);
    });
  program
    .command('detach <pid>')
    .description('take all probes out of a process and restore its code')
    .action(async (pid: string) => {
      const count = await removeLeftovers(parsePid(pid), { whoseOwner: 'is-any' });
      console.log(count === 0 ? 'there was no probe' : `took out ${count} ${count === 1 ? 'patch' : 'patches'}`);
    });
  return program;
}

/** As a shell reports it. */
function exitCodeOf(end: SessionEnd | undefined): number {
  if (end?.reason !== 'exit' || end.exit === undefined) return 0;
  const { exitCode, signal } = end.exit;
  return exitCode ?? 128 + (signal === null ? 0 : constants.signals[signal as NodeJS.Signals]);
}

function fail(error: unknown): void {
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return;
    const message = error.message.replace(/^error: /, '');
    console.error(`error: ${message}\nhint: fastprobe --help shows how to use it`);
    process.exitCode = 2;
    return;
  }
  process.exitCode = 1;
  if (!(error instanceof FastprobeError)) throw error;
  console.error(`error: ${error.message} [${error.code}]\nhint: ${error.hint}`);
}

try {
  await build().parseAsync();
} catch (error) {
  fail(error);
}
