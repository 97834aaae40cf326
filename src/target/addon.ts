// The native addon: what it offers, and how it is found. Nothing outside src/target imports this.

import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { FastprobeError } from '../errors.js';

/** An event as the addon reports it; events.ts gives it its public form. */
export type NativeEvent =
  | { type: 'exit'; tid: number; exitCode: number | null; signal: number | null }
  | { type: 'thread-exit'; tid: number }
  | { type: 'exec'; tid: number; formerTid: number }
  | { type: 'fork'; tid: number; how: 'fork' | 'vfork' | 'clone'; child: number }
  | { type: 'thread'; tid: number; newTid: number }
  | { type: 'signal'; tid: number; signal: number; code: number; sender: number; address: bigint; value: bigint };

/** An operation in the form that the addon takes; operation.ts makes it. */
export interface NativeOperation {
  calls: BigUint64Array;
  data: Uint8Array;
  descriptorOf: number;
  /** [from, to, …] */
  moves: BigUint64Array;
  /** [address, length expected, length written, …]; the bytes themselves are in `contents`. */
  changes: BigUint64Array;
  contents: Uint8Array;
  allOrNone: boolean;
  end: number;
}

export interface NativeOperationResult {
  results: BigInt64Array;
  descriptor: number;
  mismatches: Int32Array;
  tids: Int32Array;
  threadPointers: BigUint64Array;
  heldMicroseconds: number;
}

/** One target. Every method runs in the tracer task, in the order of the calls; arguments are trusted. */
export interface NativeTarget {
  attach(pid: number): Promise<void>;
  launch(file: string, argv: string[], env: string[], folder: string, stdio: number[]): Promise<number>;
  runTo(address: bigint, timeoutMs: number): Promise<void>;
  stop(timeoutMs: number): Promise<void>;
  /** Resolves with the microseconds for which the target was held. */
  resume(): Promise<number>;
  detach(timeoutMs: number): Promise<number>;
  kill(signal: number): Promise<void>;
  registers(): Promise<{ tids: Int32Array; values: BigUint64Array }>;
  setRegisters(tids: Int32Array, values: BigUint64Array): Promise<void>;
  xstate(tid: number): Promise<Uint8Array>;
  setXstate(tid: number, bytes: Uint8Array): Promise<void>;
  /** `ranges` is [address, length, …]; resolves with the bytes done of each. */
  read(ranges: BigUint64Array, destination: Uint8Array): Promise<Float64Array>;
  write(ranges: BigUint64Array, source: Uint8Array): Promise<Float64Array>;
  /** `tid` 0 means any thread; remote-calls.ts makes the words. Resolves with the results, up to the first failure. */
  syscalls(
    tid: number,
    instruction: bigint,
    words: BigUint64Array,
    data: Uint8Array,
    timeoutMs: number,
  ): Promise<BigInt64Array>;
  operate(instruction: bigint, operation: NativeOperation): Promise<NativeOperationResult>;
  wantSignals(want: boolean): Promise<void>;
  unref(): void;
}

export interface NativeSharedRegion {
  buffer(): ArrayBuffer;
  wait(offset: number, expected: number, timeoutMs: number): Promise<boolean>;
  wake(offset: number, count: number): number;
}

/** The code that goes into targets; the numbers are offsets into it. */
export interface RuntimeBlob {
  readonly code: Uint8Array;
  /** Where the channel's address is to be written. */
  readonly channel: number;
  readonly restorer: number;
  readonly handler: number;
  readonly sigaction: number;
}

interface Addon {
  Target: new (onEvent: (event: NativeEvent) => void) => NativeTarget;
  SharedRegion: new (path: string, length: number) => NativeSharedRegion;
  runtimeBlob(): RuntimeBlob;
  /** [time stamp counter, nanoseconds since 1970], read at the same moment. */
  clocks(): BigUint64Array;
}

/** The package's own folder: this file runs from src/target and, compiled, from dist/src/target. */
function packageRoot(): string {
  const here = dirname(fileURLToPath(import.meta.url));
  return here.endsWith(join('dist', 'src', 'target')) ? join(here, '../../..') : join(here, '../..');
}

function load(): Addon {
  const require = createRequire(import.meta.url);
  try {
    return (require('node-gyp-build') as (folder: string) => Addon)(packageRoot());
  } catch (cause) {
    throw new FastprobeError('FASTPROBE_ADDON_MISSING', `the native addon could not be loaded on ${process.platform}`, {
      hint: 'run `npm run build:native` (it needs g++, make and cmake), or install on x86-64 Linux',
      cause,
    });
  }
}

let loaded: Addon | undefined;

/** The addon, loaded when first asked for. */
export function addon(): Addon {
  loaded ??= load();
  return loaded;
}
