// Group keys that need more than 64 bits: packed into several words.
//
// A table knows such a key by one word: the last of them, combined with a hash of the others. So keys that
// differ in their last words only never share one. Of each of the others a group's state has the greatest and
// the greatest complement; where these are no complements of each other, two keys have met.

#define FLAG_KEYS_MET 5u  // two group keys are known by one word

// Takes a word into the hash of those before it. The seed is odd.
__device__ __forceinline__ u64 hash_key_word(u64 before, u64 word, u64 seed) { return mix((before ^ word) * seed); }
