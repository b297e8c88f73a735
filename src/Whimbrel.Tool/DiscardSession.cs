namespace Whimbrel.Tool;

/// <summary>Reads and throws away.</summary>
internal sealed class DiscardSession(Tally.Cell receives) : Session
{
    protected override void OnReceived(ReadOnlySpan<byte> data) => receives.Add(1);
}
