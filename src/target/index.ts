// Full control of a live process, as `fastprobe/target`: stop it, read and change it, run system calls in it, leave it as it was.

export { type Address, address, formatAddress, offsetBy } from '../address.js';
export { type ErrorCode, errorCodes, FastprobeError } from '../errors.js';
export { attach } from './attach.js';
export type { Exit, SignalEvent, TargetEvents } from './events.js';
export { type LaunchOptions, launch, type Stdio } from './launch.js';
export type { MappedFile, Mapping } from './maps.js';
export type { Change, OperationEnd, OperationPlan, OperationResult } from './operation.js';
export type { ThreadInfo } from './proc.js';
export type { RegisterName, Registers } from './registers.js';
export type { Argument, RemoteCall, RemoteCalls, RemoteOptions } from './remote-calls.js';
export type { SharedRegion } from './shared-region.js';
export { MAP, PROT } from './syscalls.js';
export type { Range, Target } from './target.js';
