namespace Whimbrel.Clusters;

/// <summary>An envelope that a node publishes on a bus.</summary>
/// <param name="Subject">
/// Subject: ASCII letters, digits and <c>. - _ =</c>, which have no special meaning to brokers.
/// </param>
/// <param name="Envelope">
/// Bytes of the envelope. Valid until the call returns; a bus that keeps them must copy them.
/// </param>
public readonly record struct BusMessage(string Subject, ReadOnlyMemory<byte> Envelope);
