// The echo of the package ws (github.com/websockets/ws), stock, on one thread of JavaScript; what it compresses goes over zlib's threads. Compression is offered to whoever asks, for messages of any size.
const { WebSocketServer } = require('ws');
const port = Number(process.argv[process.argv.indexOf('--port') + 1]);
const server = new WebSocketServer({ host: '127.0.0.1', port, perMessageDeflate: { threshold: 0 } });
server.on('connection', socket => socket.on('message', (data, binary) => socket.send(data, { binary })));
server.on('listening', () => console.log(`listening on 127.0.0.1:${server.address().port} (engine node-ws, loops 1)`));
