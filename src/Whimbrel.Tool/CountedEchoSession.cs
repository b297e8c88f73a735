namespace Whimbrel.Tool;

/// <summary>An echo for <c>--stats</c>. Apart from <see cref="EchoSession"/> so that the plain one counts nothing.</summary>
internal sealed class CountedEchoSession(Tally.Cell receives) : Session
{
    protected override void OnReceived(ReadOnlySpan<byte> data)
    {
        receives.Add(1);
        Send(data);
    }
}
