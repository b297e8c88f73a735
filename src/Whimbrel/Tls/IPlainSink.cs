namespace Whimbrel.Tls;

/// <summary>Receiver of a layer's plaintext: the connection, or a test harness.</summary>
internal interface IPlainSink
{
    /// <summary>
    /// Receives plaintext, in order, never empty, at most 32 KiB. The span is valid during the call only, in memory of
    /// the layer that the sink may overwrite. The layer must not be called inside it, except
    /// <see cref="TlsLayer.Send"/>.
    /// </summary>
    /// <param name="plain">Plaintext; all of it is consumed.</param>
    /// <returns>False to stop deliveries in this call of the layer.</returns>
    bool Take(ReadOnlySpan<byte> plain);
}
