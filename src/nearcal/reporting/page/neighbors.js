// The k rows nearest to a row. Looking at all 50,000 takes a few milliseconds: a tree or a grid would gain nothing that
// a hand could feel, and lists of neighbours would make the page several times as large.

function nearestRows(space, row, k) {
  const n = space[0].length;
  const squared = new Float32Array(n);
  for (const column of space) {
    const own = column[row];
    for (let i = 0; i < n; i++) {
      const difference = column[i] - own;
      squared[i] += difference * difference;
    }
  }
  const reach = smallest(squared.slice(), k - 1);
  const nearer = [];
  const ties = [];
  for (let i = 0; i < n; i++) {
    if (squared[i] < reach) nearer.push(i);
    else if (squared[i] === reach) ties.push(i);
  }
  return nearer.concat(ties.slice(0, k - nearer.length));
}

// The value that sorting would put at a place, by Hoare's selection; the array is rearranged.
function smallest(values, place) {
  let low = 0;
  let high = values.length - 1;
  while (low < high) {
    const pivot = values[(low + high) >> 1];
    let i = low;
    let j = high;
    while (i <= j) {
      while (values[i] < pivot) i++;
      while (values[j] > pivot) j--;
      if (i <= j) [values[i++], values[j--]] = [values[j], values[i]];
    }
    if (place <= j) high = j;
    else if (place >= i) low = i;
    else break;
  }
  return values[place];
}

// The row nearest to a place of the map, NaN places left out; -1 if none is within `reach`.
function nearestPlace(x, y, atX, atY, reach) {
  let found = -1;
  let least = reach * reach;
  for (let i = 0; i < x.length; i++) {
    const squared = (x[i] - atX) ** 2 + (y[i] - atY) ** 2;
    if (squared < least) [found, least] = [i, squared];
  }
  return found;
}

// The next row in a direction, within 45° of it, at least `step` away so that each key press can be seen.
function nextPlace(x, y, from, right, up, step) {
  let found = -1;
  let least = Infinity;
  for (let i = 0; i < x.length; i++) {
    const [dx, dy] = [x[i] - x[from], y[i] - y[from]];
    const along = dx * right - dy * up;
    const across = Math.abs(dx * up + dy * right);
    if (along >= step && across <= along && along + across < least) [found, least] = [i, along + across];
  }
  return found;
}
