namespace Whimbrel.Tls;

/// <summary>
/// TLS for one connection: bytes in, bytes out. SslStreamLayer.cs is the portable one; a layer on OpenSSL has the same
/// contract. TlsTransport is the owner; docs/design/0016-tls.md has the reasons.
/// </summary>
/// <remarks>
/// The contract, tested on every layer by TlsLayerSuite:
/// <list type="number">
/// <item>One layer serves one connection; one thread at a time calls it. During the handshake that may be a thread of the
/// pool, afterwards it is the loop. No member does I/O, blocks, starts a timer or hops to another thread.</item>
/// <item>A sink may call <see cref="Send"/> while it takes, with another output, as long as the output of the running Receive is empty: what
/// stands there goes first. Nothing else is re-entered, and a verdict never calls the layer.</item>
/// <item><see cref="Start"/> comes first and once. <see cref="TlsStep.Ready"/> comes once. Before it no plaintext is delivered and Send is not called.</item>
/// <item>Receive consumes all input unless it returns OutputFull, Stopped, Ready or an end; what was not
/// consumed comes again, joined with more. A layer may hold what it consumed and deliver it in a later call.</item>
/// <item>Send encrypts in order and takes as much as fits the output; with an output of CipherBlock.LeastBytes it takes at least one byte.</item>
/// <item>After an end (PeerClosed, Truncated, Refused) Receive is not called again. After PeerClosed Send still works: the
/// halves of a connection end one by one.</item>
/// <item>What the peer can make a layer keep or do without delivering is bounded: a flood of key updates or of empty
/// records ends in Refused; a record above the size of the standard is Refused.</item>
/// <item>Downloads of any kind (intermediates, revocation) are off. A renegotiation is refused.</item>
/// <item>Free comes once, by the owner, after which nothing is called, and never from inside a call.</item>
/// </list>
/// </remarks>
internal abstract class TlsLayer
{
    /// <summary>A client writes its ClientHello. A server writes nothing.</summary>
    internal abstract TlsStep Start(CipherBlock output);

    /// <summary>Takes cipher text, delivers plaintext, answers.</summary>
    /// <param name="cipher">What arrived. Valid during the call.</param>
    /// <param name="consumed">How much of it was taken.</param>
    /// <param name="sink">Gets the plaintext.</param>
    /// <param name="output">Gets what must be sent.</param>
    internal abstract TlsStep Receive(ReadOnlySpan<byte> cipher, out int consumed, IPlainSink sink, CipherBlock output);

    /// <summary>Encrypts. NeedInput when all was accepted, OutputFull when not.</summary>
    /// <param name="plain">What to send. Valid during the call.</param>
    /// <param name="accepted">How much of it is in the output now.</param>
    /// <param name="output">Gets the records.</param>
    internal abstract TlsStep Send(ReadOnlySpan<byte> plain, out int accepted, CipherBlock output);

    /// <summary>The peer's bytes have ended (FIN), and Receive was called with all of them: PeerClosed or Truncated; during the handshake Refused.</summary>
    internal abstract TlsStep EndOfInput();

    /// <summary>Writes the proper end of this half (close_notify). Once, after the last Send.</summary>
    internal abstract void CloseNotify(CipherBlock output);

    /// <summary>What was agreed on. From Ready on.</summary>
    internal abstract TlsInfo Info { get; }

    /// <summary>After Refused or Truncated: why.</summary>
    internal TlsFault Fault { get; private protected set; }

    /// <summary>Gives all back. Once.</summary>
    internal abstract void Free();
}
