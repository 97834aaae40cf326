// The public API of fastprobe, nothing else.

export { type Address, address, formatAddress, offsetBy } from './address.js';
export { type ErrorCode, errorCodes, FastprobeError } from './errors.js';
export { attach } from './target/attach.js';
export type { Exit, SignalEvent, TargetEvents } from './target/events.js';
export { type LaunchOptions, launch, type Stdio } from './target/launch.js';
export type { MappedFile, Mapping } from './target/maps.js';
export type { ThreadInfo } from './target/proc.js';
export type { RegisterName, Registers } from './target/registers.js';
export type { RemoteCalls, RemoteOptions } from './target/remote-calls.js';
export type { SharedRegion } from './target/shared-region.js';
export { MAP, PROT } from './target/syscalls.js';
export type { Range, Target } from './target/target.js';
