// Random numbers as PyTorch draws them on a CPU: the same seed gives the same network, data and batches in the browser.

const SIZE = 624, SHIFT = 397
const PART = 2 ** -24

export class Generator { // the Mersenne Twister MT19937
  constructor(seed) {
    const state = this.state = new Uint32Array(SIZE)
    state[0] = seed
    for (let i = 1; i < SIZE; i++) state[i] = Math.imul(1812433253, state[i - 1] ^ state[i - 1] >>> 30) + i
    this.at = SIZE
    this.kept = null // of a pair of normal numbers, the second one
  }

  refill() {
    const {state} = this
    for (let i = 0; i < SIZE; i++) {
      const y = state[i] & 0x80000000 | state[(i + 1) % SIZE] & 0x7fffffff
      state[i] = state[(i + SHIFT) % SIZE] ^ y >>> 1 ^ (y & 1 ? 0x9908b0df : 0)
    }
    this.at = 0
  }

  random() { // 32 bits
    if (this.at === SIZE) this.refill()
    let y = this.state[this.at++]
    y ^= y >>> 11
    y ^= y << 7 & 0x9d2c5680
    y ^= y << 15 & 0xefc60000
    return (y ^ y >>> 18) >>> 0
  }

  double() { // 53 bits, from 0 to 1
    const high = this.random(), low = this.random()
    return ((high & 0x1fffff) * 2 ** 32 + low) * 2 ** -53
  }

  uniform(count, low = 0, high = 1) { // as float32
    const size = Math.fround(high - low)
    return Float64Array.from({length: count}, () => Math.fround(Math.fround((this.random() & 0xffffff) * PART * size) + low))
  }

  normal(count) { // of mean 0 and variance 1: Box and Muller, sixteen at a time where there are as many
    if (count < 16) return Float64Array.from({length: count}, () => this.oneNormal())
    const out = this.uniform(count)
    const turn = first => {
      for (let i = first; i < first + 8; i++) {
        const radius = Math.sqrt(-2 * Math.log(1 - out[i])), angle = 2 * Math.PI * out[i + 8]
        out[i] = Math.fround(radius * Math.cos(angle))
        out[i + 8] = Math.fround(radius * Math.sin(angle))
      }
    }
    for (let i = 0; i + 16 <= count; i += 16) turn(i)
    if (count % 16) { out.set(this.uniform(16), count - 16); turn(count - 16) }
    return out
  }

  oneNormal() {
    if (this.kept !== null) { const kept = this.kept; this.kept = null; return Math.fround(kept) }
    const angle = 2 * Math.PI * this.double(), radius = Math.sqrt(-2 * Math.log1p(-this.double()))
    this.kept = radius * Math.sin(angle)
    return Math.fround(radius * Math.cos(angle))
  }

  permutation(count) {
    const out = Int32Array.from({length: count}, (_, i) => i)
    for (let i = 0; i < count - 1; i++) {
      const j = i + this.random() % (count - i), kept = out[i]
      out[i] = out[j]
      out[j] = kept
    }
    return out
  }
}
