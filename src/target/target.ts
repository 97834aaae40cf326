// One process under our control: stop it, read and change it, run system calls in it, and leave it as it was.

import { EventEmitter } from 'node:events';
import { constants } from 'node:os';
import { type Address, address, formatAddress } from '../address.js';
import { FastprobeError } from '../errors.js';
import { addon, type NativeEvent, type NativeTarget } from './addon.js';
import { type Exit, type TargetEvents, toExit, toSignal } from './events.js';
import { type MappedFile, type Mapping, mappedFile, readMaps } from './maps.js';
import { native } from './native-errors.js';
import { type OperationEnd, type OperationPlan, type OperationResult, packOperation } from './operation.js';
import { listThreads, type ThreadInfo } from './proc.js';
import { packRegisters, type Registers, unpackRegisters } from './registers.js';
import { RemoteCalls } from './remote-calls.js';

export interface Range {
  address: Address;
  length: number;
}

const defaultStopTimeoutMs = 5_000;

/**
 * A process that we are attached to. Made by `attach()` and `launch()`.
 *
 * Owns the attachment: `detach()`, or leaving an `await using` block, lets the process go on as if nobody had been there.
 * Calls are carried out one after the other, in the order in which they were made. When the process ends or calls exec,
 * whatever is under way rejects with FASTPROBE_TARGET_EXITED or FASTPROBE_TARGET_EXECED.
 */
export class Target extends EventEmitter<TargetEvents> implements AsyncDisposable {
  readonly pid: number;
  /** Resolves when the process has ended, if we were attached then or have launched it. */
  readonly exited: Promise<Exit>;
  /** System calls, run in the target while it is stopped. */
  readonly remote: RemoteCalls;
  readonly #native: NativeTarget;
  #attached = true;

  /** For attach() and launch() only. */
  constructor(native: NativeTarget, pid: number, events: EventQueue) {
    super();
    this.pid = pid;
    this.#native = native;
    this.remote = new RemoteCalls(native, pid);
    this.exited = new Promise((resolve) => this.once('exit', resolve));
    events.deliverTo((event) => this.#onEvent(event));
  }

  /** False after detach() and after the process has ended. */
  get attached(): boolean {
    return this.#attached;
  }

  /** Stops every thread. Does nothing if they are stopped already. */
  async stop(options: { timeoutMs?: number } = {}): Promise<void> {
    await native(this.#native.stop(options.timeoutMs ?? defaultStopTimeoutMs));
  }

  /** Lets every thread go on. Resolves with the microseconds for which they were held. */
  async resume(): Promise<number> {
    return native(this.#native.resume());
  }

  /**
   * Lets go of the process; it runs on, or stays stopped if it was stopped by a signal. Resolves with the microseconds for
   * which its threads were held. A second call does nothing.
   */
  async detach(): Promise<number> {
    if (!this.#attached) return 0;
    let held = 0;
    try {
      held = await native(this.#native.detach(defaultStopTimeoutMs));
    } catch (error) {
      // What we wanted to let go of is gone.
      if (!(error instanceof FastprobeError) || error.code !== 'FASTPROBE_TARGET_EXITED') throw error;
    } finally {
      this.#native.unref();
    }
    this.#attached = false;
    return held;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.detach();
  }

  /** Sends the process a signal, SIGKILL unless told otherwise, and, if that ends it, waits for the end. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const number = constants.signals[signal];
    if (number === undefined) {
      throw new FastprobeError('FASTPROBE_BAD_ARGUMENT', `unknown signal '${signal}'`, {
        hint: "pass a name such as 'SIGTERM'",
      });
    }
    await native(this.#native.kill(number));
    if (signal === 'SIGKILL' && this.#attached) await this.exited;
  }

  threads(): ThreadInfo[] {
    return listThreads(this.pid);
  }

  /** The general registers of all threads, by thread id. The target must be stopped. */
  async registers(): Promise<Map<number, Registers>> {
    const { tids, values } = await native(this.#native.registers());
    return new Map([...tids].map((tid, index) => [tid, unpackRegisters(values, index)]));
  }

  /** Sets the general registers of the given threads, all in one go. */
  async setRegisters(threads: ReadonlyMap<number, Registers>): Promise<void> {
    await native(this.#native.setRegisters(Int32Array.from(threads.keys()), packRegisters(threads.values())));
  }

  /** A thread's whole extended state (x87, SSE, AVX, …) in the XSAVE layout. */
  async extendedState(tid: number): Promise<Uint8Array> {
    return native(this.#native.xstate(tid));
  }

  async setExtendedState(tid: number, bytes: Uint8Array): Promise<void> {
    await native(this.#native.setXstate(tid, bytes));
  }

  /** Reads `length` bytes, or throws FASTPROBE_MEMORY. The target may run meanwhile. */
  async read(from: Address, length: number): Promise<Uint8Array> {
    const [bytes] = await this.readMany([{ address: from, length }]);
    if (bytes === undefined || bytes.length < length)
      throw memoryError('read', this.pid, from, length, bytes?.length ?? 0);
    return bytes;
  }

  /** Reads many ranges in one go. Where a range can't be read to its end, its bytes are fewer than asked for. */
  async readMany(ranges: readonly Range[]): Promise<Uint8Array[]> {
    const destination = new Uint8Array(ranges.reduce((sum, range) => sum + checkedLength(range), 0));
    const lengths = await native(this.#native.read(packRanges(ranges), destination));
    let offset = 0;
    return ranges.map((range, index) => {
      const start = offset;
      offset += range.length;
      return destination.subarray(start, start + (lengths[index] ?? 0));
    });
  }

  /** Writes to any mapped page, also one that the target itself can't write, such as code. */
  async write(to: Address, bytes: Uint8Array): Promise<void> {
    await this.writeMany([{ address: to, bytes }]);
  }

  /** Writes many ranges in one go, in order. Throws FASTPROBE_MEMORY naming the first that could not be written. */
  async writeMany(writes: readonly { address: Address; bytes: Uint8Array }[]): Promise<void> {
    const ranges = writes.map((write) => ({ address: write.address, length: write.bytes.length }));
    const lengths = await native(
      this.#native.write(packRanges(ranges), Buffer.concat(writes.map((write) => write.bytes))),
    );
    const failed = ranges.findIndex((range, index) => lengths[index] !== range.length);
    const range = ranges[failed];
    if (range !== undefined) throw memoryError('write', this.pid, range.address, range.length, lengths[failed] ?? 0);
  }

  /**
   * Stops the target, if it runs, does all that is planned, and lets it go as told: as short a stop as can be, because nothing
   * waits for us meanwhile. Throws FASTPROBE_REMOTE_CALL when a system call failed.
   */
  async operate(plan: OperationPlan, end: OperationEnd): Promise<OperationResult> {
    const instruction = await this.remote.instruction();
    const done = await native(this.#native.operate(instruction, packOperation(plan, end)));
    if (end === 'detach') {
      this.#attached = false;
      this.#native.unref();
    }
    this.remote.throwIfFailed(plan.calls ?? [], [...done.results]);
    return {
      results: [...done.results],
      descriptor: done.descriptor < 0 ? undefined : done.descriptor,
      mismatches: [...done.mismatches],
      threadPointers: new Map([...done.tids].map((tid, index) => [tid, address(done.threadPointers[index] ?? 0n)])),
      heldMicroseconds: end === 'stay-stopped' ? 0 : done.heldMicroseconds,
    };
  }

  /** Turns `signal` events on or off; each costs the target a microsecond or so, and they are off at first. */
  async reportSignals(on: boolean): Promise<void> {
    await native(this.#native.wantSignals(on));
  }

  /** The memory map as it is now. */
  maps(): Mapping[] {
    return readMaps(this.pid);
  }

  /** The file behind a mapping, as the target sees it, with its build-id. */
  fileOf(mapping: Mapping): MappedFile {
    return mappedFile(this.pid, mapping);
  }

  #onEvent(event: NativeEvent): void {
    switch (event.type) {
      case 'exit':
        this.#attached = false;
        this.emit('exit', toExit(event));
        break;
      case 'exec':
        this.remote.forgetProgram();
        this.emit('exec', { formerTid: event.formerTid });
        break;
      case 'fork':
        this.emit('fork', { tid: event.tid, child: event.child, how: event.how });
        break;
      case 'thread':
        this.emit('thread', { tid: event.tid, newTid: event.newTid });
        break;
      case 'thread-exit':
        this.emit('thread-exit', { tid: event.tid });
        break;
      case 'signal':
        this.emit('signal', toSignal(event));
        break;
    }
  }
}

/** Holds what happens before there is a Target to tell it to. */
export class EventQueue {
  #waiting: NativeEvent[] = [];
  #receiver: ((event: NativeEvent) => void) | undefined;

  push(event: NativeEvent): void {
    if (this.#receiver === undefined) this.#waiting.push(event);
    else this.#receiver(event);
  }

  deliverTo(receiver: (event: NativeEvent) => void): void {
    this.#receiver = receiver;
    // Later, so that whoever awaits the target can listen first.
    setImmediate(() => {
      for (const event of this.#waiting.splice(0)) receiver(event);
    });
  }
}

/** A native target whose events go to the queue. */
export function openNativeTarget(): { native: NativeTarget; events: EventQueue } {
  const events = new EventQueue();
  return { native: new (addon().Target)((event) => events.push(event)), events };
}

function checkedLength(range: Range): number {
  if (Number.isSafeInteger(range.length) && range.length >= 0) return range.length;
  throw new FastprobeError('FASTPROBE_BAD_ARGUMENT', `not a length: ${range.length}`, {
    hint: 'pass a number of bytes',
  });
}

function packRanges(ranges: readonly Range[]): BigUint64Array {
  const packed = new BigUint64Array(ranges.length * 2);
  ranges.forEach((range, index) => {
    packed[index * 2] = address(range.address);
    packed[index * 2 + 1] = BigInt(range.length);
  });
  return packed;
}

function memoryError(what: 'read' | 'write', pid: number, at: Address, length: number, done: number): FastprobeError {
  const message = `cannot ${what} ${length} bytes at ${formatAddress(at)} of process ${pid}: only ${done} could be`;
  return new FastprobeError('FASTPROBE_MEMORY', message, { hint: 'maps() shows which addresses are mapped' });
}
