// node node-site.js PORT PORT-WITH-TLS FOLDER: the site that ServerTests asks, with its certificate and its large file from the folder.
const crypto = require('crypto'), fs = require('fs'), http = require('http'), https = require('https'), zlib = require('zlib')
const [port, portWithTls, folder] = process.argv.slice(2)
const coded = { br: zlib.brotliCompressSync, gzip: zlib.gzipSync, deflate: zlib.deflateSync }
const site = (request, response) => {
  switch (request.url) {
    case '/text': return response.setHeader('Content-Length', 5).end('hello')
    case '/large': return fs.createReadStream(`${folder}/large`).pipe(response)
    case '/redirect': return response.writeHead(302, { Location: '/text' }).end()
    case '/sum': {
      const hash = crypto.createHash('sha256')
      return request.on('data', piece => hash.update(piece)).on('end', () => response.end(hash.digest('hex')))
    }
    case '/chunked':
      response.writeEarlyHints({ link: '</a>; rel=preload' })
      response.writeHead(200, { Trailer: 'X-Sum' })
      for (const piece of ['one ', 'two ', 'three']) response.write(piece)
      response.addTrailers({ 'X-Sum': '7' })
      return response.end()
    case '/long': {
      const coding = ['br', 'gzip', 'deflate'].find(c => (request.headers['accept-encoding'] ?? '').includes(c))
      const text = 'x'.repeat(100_000)
      if (!coding) return response.end(text)
      return response.setHeader('Content-Encoding', coding).end(coded[coding](text))
    }
    case '/cut':
      response.setHeader('Content-Length', 1000)
      return response.write('0123456789', () => request.socket.destroy())
    default: return request.socket.destroy()
  }
}
http.createServer(site).listen(port, '127.0.0.1')
https.createServer({ cert: fs.readFileSync(`${folder}/certificate`), key: fs.readFileSync(`${folder}/key`) }, site).listen(portWithTls, '127.0.0.1')
