namespace Whimbrel.Tool;

/// <summary>Echo session for <c>--stats</c>. Separate from <see cref="EchoSession"/>, which counts nothing.</summary>
internal sealed class CountedEchoSession(Tally.Cell receives) : Session
{
    protected override void OnReceived(ReadOnlySpan<byte> data)
    {
        receives.Add(1);
        Send(data);
    }
}
