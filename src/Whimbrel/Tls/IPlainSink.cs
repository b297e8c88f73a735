namespace Whimbrel.Tls;

/// <summary>Where a layer delivers plaintext: the connection, and the harness of the tests.</summary>
internal interface IPlainSink
{
    /// <summary>Some plaintext, in order, never empty, at most 32 KiB. The span is valid during the call only, in memory of the layer that the sink may overwrite; the layer is not called from inside it.</summary>
    /// <param name="plain">The bytes; all of them are taken.</param>
    /// <returns>False: deliver nothing more in this call of the layer.</returns>
    bool Take(ReadOnlySpan<byte> plain);
}
