// The public API of fastprobe, nothing else. `fastprobe/target` has the layer below: full control of a process.

export { type Address, address, formatAddress, offsetBy } from './address.js';
export { type ErrorCode, errorCodes, FastprobeError } from './errors.js';
export type { TacticName } from './patch/tactics.js';
export { type FoundSession, listProbes, removeLeftovers } from './probe/leftovers.js';
export type { Hit, Probe, ProbeSite, ProbeSummary } from './probe/probe.js';
export { attach, launch, type Session, type SessionEnd } from './probe/session.js';
export type { ProbeSpec } from './probe/spec.js';
export type { CapturedValue } from './probe/values.js';
export type { Exit } from './target/events.js';
export type { LaunchOptions, Stdio } from './target/launch.js';
