// One conversation with an echo, by whatever WebSocket there is: that of a browser, of Node, or of the package ws. Throws for what is not as it should be.
async function play(base, WebSocket, deflates) {
  const is = (got, wanted, what) => { if (got !== wanted) throw new Error(`${what}: ${got} instead of ${wanted}`); };
  const make = (path, protocols) => { const s = new WebSocket(base + path, protocols); s.binaryType = 'arraybuffer'; return s; };
  const open = (path, protocols = []) => new Promise((done, fail) => {
    const s = make(path, protocols);
    s.onopen = () => done(s);
    s.onerror = () => fail(new Error(`no connection at ${path}`));
  });
  const next = s => new Promise((done, fail) => { s.onmessage = e => done(e.data); s.onclose = e => fail(new Error(`closed with ${e.code}`)); });
  const end = s => new Promise(done => { s.onclose = e => done(`${e.code} ${e.reason} ${e.wasClean}`); });

  const s = await open('/echo', ['a', 'b']);
  is(s.protocol, 'b', 'sub-protocol');
  if (deflates !== undefined) is(s.extensions.includes('permessage-deflate'), deflates, 'compression');
  for (const text of ['', 'Hällo, \u{1F600}', 'wren and wheatear '.repeat(20000)]) {
    const answer = next(s);
    s.send(text);
    is(await answer, text, `text of ${text.length}`);
  }
  for (const length of [0, 1, 125, 126, 65535, 65536, 1048576]) {
    const bytes = new Uint8Array(length).map((_, i) => i * 31 + (i >> 8));
    const answer = next(s);
    s.send(bytes);
    const got = new Uint8Array(await answer);
    is(got.length, length, 'length');
    is(got.every((b, i) => b === bytes[i]), true, `bytes of ${length}`);
  }
  const ended = end(s);
  s.close(4001, 'done');
  is((await ended).replace('done', ''), '4001  true', 'our close'); // the reason is that of the server, which gives none, or our own: they differ

  for (const status of [1000, 1001, 1011, 3000, 4999]) {
    const other = make(`/close/${status}`, []);
    is(await end(other), `${status} as asked true`, 'close of the server');
  }
  // Older Nodes tell of an error only, and of no close behind it.
  await new Promise((done, fail) => { const s = make('/refused', []); s.onopen = () => fail(new Error('it was not refused')); s.onerror = s.onclose = done; });
  return 'well';
}
