// System calls run in the target, by a thread of it that does not notice.

import { getSystemErrorName } from 'node:util';
import { type Address, address, formatAddress, offsetBy } from '../address.js';
import { FastprobeError } from '../errors.js';
import type { NativeTarget } from './addon.js';
import { type Mapping, readMaps } from './maps.js';
import { native } from './native-errors.js';
import { SharedRegion } from './shared-region.js';
import { MAP, MFD_CLOEXEC, MREMAP, PROT, type SyscallName, syscallNumbers } from './syscalls.js';

export interface RemoteOptions {
  /** The thread that makes the call; any if not given. */
  tid?: number;
  timeoutMs?: number;
}

/** An argument: a number, the result of the call with that index in the same batch, or the address of the batch's data. */
export type Argument = bigint | { readonly result: number } | 'data';

export interface RemoteCall {
  readonly name: SyscallName;
  readonly args: readonly Argument[];
}

const argumentCount = 6;
const dataMark = 15;

/** A call as the addon takes it: number, arguments, and four bits for each argument that say what to put in its place. */
function wordsOf({ nr, args }: { nr: number; args: readonly Argument[] }): bigint[] {
  let marks = 0n;
  const values = Array.from({ length: argumentCount }, (_, index) => {
    const argument = args[index] ?? 0n;
    if (typeof argument === 'bigint') return BigInt.asUintN(64, argument);
    const mark = argument === 'data' ? dataMark : argument.result + 1;
    marks |= BigInt(mark) << BigInt(4 * index);
    return 0n;
  });
  return [BigInt(nr), ...values, marks];
}

export function wordsOfCalls(calls: readonly RemoteCall[]): BigUint64Array {
  return BigUint64Array.from(calls.flatMap(({ name, args }) => wordsOf({ nr: syscallNumbers[name], args })));
}

const pageSize = 4096;
const pages = (length: number) => Math.ceil(length / pageSize) * pageSize;

export interface MapOptions {
  at?: Address;
  protection?: number;
}

/** The call that maps anonymous private memory, for a batch. */
export function mapCall(length: number, options: MapOptions): RemoteCall {
  const protection = options.protection ?? PROT.read | PROT.write;
  const flags = MAP.private | MAP.anonymous | (options.at === undefined ? 0 : MAP.fixedNoReplace);
  return { name: 'mmap', args: [options.at ?? 0n, BigInt(length), BigInt(protection), BigInt(flags), -1n, 0n] };
}

const memfdCreate: RemoteCall = { name: 'memfd_create', args: ['data', BigInt(MFD_CLOEXEC)] };

/** The calls that make a memory file, whose name is the batch's data, and map it; the first one's result is its descriptor. */
export function shareCalls(size: number, at: Address | undefined): RemoteCall[] {
  const flags = MAP.shared | (at === undefined ? 0 : MAP.fixedNoReplace);
  const file = { result: 0 };
  return [
    memfdCreate,
    { name: 'ftruncate', args: [file, BigInt(size)] },
    { name: 'mmap', args: [at ?? 0n, BigInt(size), BigInt(PROT.read | PROT.write), BigInt(flags), file, 0n] },
  ];
}

function textOf(name: string): Uint8Array {
  return Buffer.from(`${name}\0`);
}

/**
 * Runs system calls in a stopped target. The thread that lends itself is put back as it was, also when the call fails,
 * blocks, or we die; signals that arrive meanwhile wait.
 */
export class RemoteCalls {
  readonly #native: NativeTarget;
  readonly #pid: number;
  #instruction: Promise<Address> | undefined;

  constructor(nativeTarget: NativeTarget, pid: number) {
    this.#native = nativeTarget;
    this.#pid = pid;
  }

  /** Runs any system call. Resolves with what the kernel returns: a negative errno when the call failed. */
  async raw(nr: number, args: readonly bigint[] = [], options: RemoteOptions = {}): Promise<bigint> {
    const [result = 0n] = await this.#run([{ nr, args }], new Uint8Array(), options);
    return result;
  }

  /** Runs a system call by name. Throws FASTPROBE_REMOTE_CALL when it fails. */
  async call(name: SyscallName, args: readonly bigint[] = [], options: RemoteOptions = {}): Promise<bigint> {
    const [result = 0n] = await this.batch([{ name, args }], options);
    return result;
  }

  /**
   * Runs system calls one after the other, without coming back to us in between. An argument may be the result of an earlier
   * one, or point at `data`. Throws FASTPROBE_REMOTE_CALL when one fails; those behind it are not run.
   */
  async batch(
    calls: readonly RemoteCall[],
    options: RemoteOptions & { data?: Uint8Array } = {},
  ): Promise<readonly bigint[]> {
    const numbered = calls.map(({ name, args }) => ({ nr: syscallNumbers[name], args }));
    const results = await this.#run(numbered, options.data ?? new Uint8Array(), options);
    this.throwIfFailed(calls, results);
    return results;
  }

  /** Throws when the last of the results is a failure. */
  throwIfFailed(calls: readonly RemoteCall[], results: readonly bigint[]): void {
    const last = results.at(-1) ?? 0n;
    if (last >= 0n || last <= -4096n) return;
    const name = calls[results.length - 1]?.name;
    const errno = getSystemErrorName(Number(last));
    throw new FastprobeError('FASTPROBE_REMOTE_CALL', `${name} in process ${this.#pid} failed: ${errno}`, {
      hint: `man 2 ${name} says what ${errno} means`,
    });
  }

  /** The address of a syscall instruction in the target. */
  async instruction(): Promise<Address> {
    this.#instruction ??= this.#findInstruction();
    return this.#instruction;
  }

  async #run(
    calls: readonly { nr: number; args: readonly Argument[] }[],
    data: Uint8Array,
    options: RemoteOptions,
  ): Promise<readonly bigint[]> {
    const instruction = await this.instruction();
    if (calls.length === 0) return [];
    const words = BigUint64Array.from(calls.flatMap(wordsOf));
    return [
      ...(await native(this.#native.syscalls(options.tid ?? 0, instruction, words, data, options.timeoutMs ?? 5_000))),
    ];
  }

  /** Maps anonymous private memory; at `at`, if given, but never over something that is there. */
  async mmap(length: number, options: MapOptions = {}): Promise<Address> {
    const [place = 0n] = await this.batch([mapCall(length, options)]);
    await this.#checkPlace(place, length, options.at);
    return address(place);
  }

  async munmap(at: Address, length: number): Promise<void> {
    await this.call('munmap', [at, BigInt(length)]);
  }

  async mprotect(at: Address, length: number, protection: number): Promise<void> {
    await this.call('mprotect', [at, BigInt(length), BigInt(protection)]);
  }

  /** Makes an anonymous file in the target; resolves with its descriptor there. It is closed by an exec. */
  async memfdCreate(name: string): Promise<number> {
    return Number((await this.batch([memfdCreate], { data: textOf(name) }))[0]);
  }

  /** Makes memory that the target and we both see; at `at` in the target, if given, but never over something. */
  async share(length: number, options: { at?: Address; name?: string } = {}): Promise<SharedRegion> {
    const size = pages(length);
    const calls = shareCalls(size, options.at);
    const [descriptor = 0n, , place = 0n] = await this.batch(calls, { data: textOf(options.name ?? 'fastprobe') });
    try {
      await this.#checkPlace(place, size, options.at);
      return new SharedRegion(`/proc/${this.#pid}/fd/${descriptor}`, size, address(place));
    } finally {
      await this.call('close', [descriptor]);
    }
  }

  /** The calls that make shared memory visible at another place as well; nothing may be mapped there. */
  mapAgain(region: Address, length: number, at: Address): RemoteCall[] {
    return [
      // mremap replaces what it finds: so the place is taken first, by memory of ours.
      mapCall(length, { at, protection: PROT.none }),
      // A length of 0 leaves the old mapping as it is; mremap(2), for shared memory.
      { name: 'mremap', args: [region, 0n, BigInt(length), BigInt(MREMAP.mayMove | MREMAP.fixed), at] },
    ];
  }

  /** After exec the instruction that we used is gone. */
  forgetProgram(): void {
    this.#instruction = undefined;
  }

  /** A kernel older than 4.17 takes MAP_FIXED_NOREPLACE for a mere wish. */
  async #checkPlace(place: bigint, length: number, wanted: Address | undefined): Promise<void> {
    if (wanted === undefined || place === wanted) return;
    await this.munmap(address(place), length);
    throw new FastprobeError('FASTPROBE_REMOTE_CALL', `mmap could not place memory at ${formatAddress(wanted)}`, {
      hint: 'the place is taken; choose another from maps()',
    });
  }

  /** A syscall instruction in the target's own code: the vdso has one, and so has every program that does anything. */
  async #findInstruction(): Promise<Address> {
    const executable = readMaps(this.#pid).filter((mapping) => mapping.executable && mapping.path !== '[vsyscall]');
    const vdsoFirst = [...executable].sort((a, b) => Number(b.path === '[vdso]') - Number(a.path === '[vdso]'));
    for (const mapping of vdsoFirst) {
      const found = await this.#findIn(mapping);
      if (found !== undefined) return found;
    }
    throw new FastprobeError('FASTPROBE_REMOTE_CALL', `process ${this.#pid} has no syscall instruction to use`, {
      hint: 'wait until the program has loaded its libraries',
    });
  }

  async #findIn(mapping: Mapping): Promise<Address | undefined> {
    const syscallInstruction = Buffer.of(0x0f, 0x05);
    const chunk = 1 << 20;
    for (let from = mapping.start; from < mapping.end; from = offsetBy(from, chunk)) {
      // One byte more than a chunk, for an instruction across its end.
      const length = Math.min(chunk + 1, Number(mapping.end - from));
      const bytes = new Uint8Array(length);
      await native(this.#native.read(BigUint64Array.of(from, BigInt(length)), bytes));
      const index = Buffer.from(bytes.buffer).indexOf(syscallInstruction);
      if (index >= 0) return offsetBy(from, index);
    }
    return undefined;
  }
}
