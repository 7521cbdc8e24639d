// Inputs that are images: how bright, and onto a canvas.

export function brightnessOf({origin, basis, domain}) { // black to white: 0 to 1, or more where inputs of the slice go beyond
  let low = 0, high = 1
  for (let c = 0; c < domain.length; c += 2) for (let i = 0, n = origin.length; i < n; i++) {
    const value = origin[i] + domain[c] * basis[i] + domain[c + 1] * basis[n + i]
    if (value < low) low = value
    if (value > high) high = value
  }
  return [low, high]
}

export function imageCanvas(canvas, [channels, height, width], values, high, low) { // values times `high` plus `low` are bytes
  canvas.width = width
  canvas.height = height
  const pen = canvas.getContext("2d"), image = pen.createImageData(width, height), plane = width * height
  for (let i = 0; i < plane; i++) for (let k = 0; k < 4; k++) image.data[4 * i + k] = k === 3 ? 255 : values[(channels === 3 ? k : 0) * plane + i] * high + low
  pen.putImageData(image, 0, 0)
  return canvas
}
