namespace Whimbrel.Tls;

/// <summary>
/// TLS for one connection: bytes in, bytes out. SslStreamLayer.cs is the portable implementation; the layer on OpenSSL
/// has the same contract. The owner is TlsTransport; docs/design/0016-tls.md has the reasons.
/// </summary>
/// <remarks>
/// The contract, tested on every layer by TlsLayerSuite:
/// <list type="number">
/// <item>One layer serves one connection; one thread at a time calls it. During the handshake that may be a pool
/// thread, afterwards it is the loop. No member performs I/O, blocks, starts a timer or switches threads.</item>
/// <item>A sink may call <see cref="Send"/> inside Take, with another output, as long as the output of the running
/// Receive is empty: its content must be sent first. No other call is re-entered, and a certificate decision never
/// calls the layer.</item>
/// <item><see cref="Start"/> is called first and once. <see cref="TlsStep.Ready"/> is returned once. Before it no
/// plaintext is delivered and Send is not called.</item>
/// <item>Receive consumes all input unless it returns OutputFull, Stopped, Ready or an end; unconsumed input is passed
/// again, together with more. A layer may keep consumed input and deliver it in a later call.</item>
/// <item>Send encrypts in order and accepts as much as fits into the output; with an output of CipherBlock.LeastBytes
/// it accepts at least one byte.</item>
/// <item>After an end (PeerClosed, Truncated, Refused) Receive is not called again. After PeerClosed Send still works,
/// because the two directions of a connection end separately.</item>
/// <item>The memory and work that a peer can cause without delivered data are bounded: a flood of key updates or of
/// empty records ends in Refused; a record above the standard's size is Refused.</item>
/// <item>Downloads of any kind (intermediates, revocation) are disabled. A renegotiation is refused.</item>
/// <item>Free is called once, by the owner, never inside a call; nothing is called after it.</item>
/// </list>
/// </remarks>
internal abstract class TlsLayer
{
    /// <summary>Begins the handshake: a client writes its ClientHello, a server writes nothing.</summary>
    internal abstract TlsStep Start(CipherBlock output);

    /// <summary>Processes cipher text: delivers plaintext and writes answers.</summary>
    /// <param name="cipher">Received bytes. Valid during the call.</param>
    /// <param name="consumed">Number of consumed bytes.</param>
    /// <param name="sink">Receiver of the plaintext.</param>
    /// <param name="output">Buffer for answers that must be sent.</param>
    internal abstract TlsStep Receive(ReadOnlySpan<byte> cipher, out int consumed, IPlainSink sink, CipherBlock output);

    /// <summary>Encrypts. Returns NeedInput if all was accepted, otherwise OutputFull.</summary>
    /// <param name="plain">Plaintext to send. Valid during the call.</param>
    /// <param name="accepted">Number of accepted bytes.</param>
    /// <param name="output">Buffer for the records.</param>
    internal abstract TlsStep Send(ReadOnlySpan<byte> plain, out int accepted, CipherBlock output);

    /// <summary>
    /// Called at the end of the peer's data (FIN), after Receive was called with all of it. Returns PeerClosed or
    /// Truncated; during the handshake Refused.
    /// </summary>
    internal abstract TlsStep EndOfInput();

    /// <summary>Writes the end of this side (close_notify). Once, after the last Send.</summary>
    internal abstract void CloseNotify(CipherBlock output);

    /// <summary>Result of the handshake. From Ready on.</summary>
    internal abstract TlsInfo Info { get; }

    /// <summary>Reason of Refused or Truncated.</summary>
    internal TlsFault Fault { get; private protected set; }

    /// <summary>Releases all resources. Once.</summary>
    internal abstract void Free();
}
