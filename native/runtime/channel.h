// Layout of the channel: the memory that the target and fastprobe share. src/channel/layout.ts has the same numbers under the
// same names, and a test compares them.
#pragma once

// --- the header page
#define CHANNEL_MAGIC 0x3145424f52505446  // "FTPROBE1"
#define CHANNEL_HEAD 0x080                // where the next hit goes in the ring; has a cache line to itself
#define CHANNEL_CURRENT_ACTION 0x100      // for each of our signals, the slot that holds the target's own action
#define CHANNEL_NEXT_ACTION 0x110         // for each of our signals, how many slots were handed out
#define CHANNEL_RESTORER 0x120            // the target's own code for returning from a handler, or ours if it has none
#define CHANNEL_ACTIONS 0x400             // for each of our signals, ACTION_SLOTS kernel sigactions
#define ACTION_SLOTS 32

// --- redirects: a hash table with open addressing, from an address where a signal arrives to where the thread goes on
#define CHANNEL_REDIRECTS 0x120000
#define REDIRECT_SLOTS 32768
#define REDIRECT_SIZE 32
#define REDIRECT_ADDRESS 0   // 0: the chain ends here
#define REDIRECT_TARGET 8
#define REDIRECT_COUNT 16    // how often it was taken
#define REDIRECT_COUNTER 24  // the offset of a counter in the channel that is counted too, or 0
