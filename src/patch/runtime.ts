// The runtime in the target: its code, and the handlers of the signals that make traps and faults of ours invisible.

import { type Address, address, offsetBy } from '../address.js';
import type { Emitter } from '../isa/emit.js';
import { rdi } from '../isa/registers.js';
import type { RemoteCall } from '../target/remote-calls.js';
import { runtimeBlob } from '../target/runtime.js';
import type { Target } from '../target/target.js';
import type { Arena } from './arena.js';
import type { Span } from './space.js';

/** Where the parts of the runtime are in the target. */
export interface Runtime {
  readonly code: Address;
  readonly handler: Address;
  /** Code that returns from a handler: the target's own, if it has some. */
  readonly restorer: Address;
  readonly sigaction: Address;
}

/** Copies the runtime into an arena. It does nothing until a handler leads there. */
export async function writeRuntime(target: Target, arena: Arena): Promise<Runtime> {
  const blob = runtimeBlob();
  const bytes = Uint8Array.from(blob.code);
  new DataView(bytes.buffer).setBigUint64(blob.channel, arena.channel, true);
  const code = arena.take(bytes.length);
  await target.write(code, bytes);
  return {
    code,
    handler: offsetBy(code, blob.handler),
    restorer: (await findRestorer(target)) ?? offsetBy(code, blob.restorer),
    sigaction: offsetBy(code, blob.sigaction),
  };
}

/** No runtime is larger. */
const runtimeSize = 4096;

/** The code of a runtime: it calls handlers of the target, which return to it. */
export function runtimeSpan(code: Address): Span | undefined {
  return code === 0n ? undefined : { low: code, high: offsetBy(code, runtimeSize) };
}

/** `mov rax, 15; syscall`: what every C library returns from handlers with, and what unwinders know a signal frame by. */
export const restorerCode = Buffer.of(0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05);

/** The target's own code for returning from a handler. An action that points there is good also when we have gone. */
async function findRestorer(target: Target): Promise<Address | undefined> {
  for (const { start, end, executable, inode, path } of target.maps()) {
    if (!executable || inode === 0n || !path.startsWith('/')) continue;
    const bytes = await target.read(start, Number(end - start));
    const index = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).indexOf(restorerCode);
    if (index >= 0) return offsetBy(start, index);
  }
  return undefined;
}

/** Where an action returns to from its handler; undefined if it has no handler. */
export function restorerOf(action: Uint8Array): Address | undefined {
  const view = new DataView(action.buffer, action.byteOffset, actionSize);
  return hasHandler(action) ? address(view.getBigUint64(16, true)) : undefined;
}

/** struct sigaction of the kernel: handler, flags, restorer, mask. */
export const actionSize = 32;
const SA_SIGINFO = 4n;
const SA_RESTORER = 0x0400_0000n;
const SA_ONSTACK = 0x0800_0000n;
const SA_RESETHAND = 0x8000_0000n;

/** The call that sets the kernel's action for a signal from the target's memory, and puts the one before at `old`. */
export function actionCall(signal: number, action: Address, old?: Address): RemoteCall {
  return { name: 'rt_sigaction', args: [BigInt(signal), action, old ?? 0n, 8n] };
}

export function hasHandler(action: Uint8Array): boolean {
  return new DataView(action.buffer, action.byteOffset, actionSize).getBigUint64(0, true) > 1n;
}

/**
 * Our action in the place of the target's: same stack, mask and restarting of system calls as its author asked for, if it
 * has a handler.
 */
export function actionFor(runtime: Runtime, theirs: Uint8Array): Uint8Array {
  const view = new DataView(theirs.buffer, theirs.byteOffset, actionSize);
  const flags = hasHandler(theirs) ? view.getBigUint64(8, true) & ~SA_RESETHAND : SA_ONSTACK;
  const ours = new DataView(new ArrayBuffer(actionSize));
  ours.setBigUint64(0, runtime.handler, true);
  ours.setBigUint64(8, flags | SA_SIGINFO | SA_RESTORER, true);
  ours.setBigUint64(16, runtime.restorer, true);
  ours.setBigUint64(24, hasHandler(theirs) ? view.getBigUint64(24, true) : 0n, true);
  return new Uint8Array(ours.buffer);
}

/**
 * The body of a trampoline at the entry of the C library's sigaction: calls for our signals go to the runtime, which keeps
 * the target's action for later and returns to the caller. Flags carry nothing into a C function, so they are not kept.
 */
export function leadSigaction(code: Emitter, runtime: Runtime, signals: readonly number[]): void {
  const ours = code.label('ours');
  const others = code.label('others');
  for (const signal of signals) {
    code.aluImmediate('cmp', rdi, signal, 32);
    code.jumpIf('e', ours, 'short');
  }
  code.jump(others, 'short');
  code.bind(ours);
  code.jumpAnywhere(runtime.sigaction);
  code.bind(others);
}
