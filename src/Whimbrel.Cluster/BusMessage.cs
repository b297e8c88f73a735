namespace Whimbrel.Clusters;

/// <summary>What a node gives a bus to publish.</summary>
/// <param name="Subject">Where to: ASCII letters, digits and <c>. - _ =</c>, so that no broker reads anything into it.</param>
/// <param name="Envelope">The bytes, only until the call returns: a bus that keeps them copies them.</param>
public readonly record struct BusMessage(string Subject, ReadOnlyMemory<byte> Envelope);
