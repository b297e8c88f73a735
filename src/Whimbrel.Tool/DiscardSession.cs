namespace Whimbrel.Tool;

/// <summary>Reads and discards data.</summary>
internal sealed class DiscardSession(Tally.Cell receives) : Session
{
    protected override void OnReceived(ReadOnlySpan<byte> data) => receives.Add(1);
}
