using Chat_Server;
using Microsoft.Extensions.Options;
using Whimbrel.Testing;

/// <summary>Sessions as the server runs them, without sockets or threads. `dotnet test tests` runs these
/// tests.</summary>
public sealed class ChatTests : IDisposable
{
    private readonly TestNetwork _network = new(seed: 1);
    private readonly ChatRoom _room = new(Options.Create(new ChatRoomOptions()));

    public void Dispose() => _network.Dispose();

    [Fact]
    public void A_line_of_one_guest_is_shown_to_the_others()
    {
        TestPeer anna = Enter("anna"), bert = Enter("bert");
        Assert.Equal("bert is here", anna.ReceiveLine());
        bert.Send("hello\n");
        Assert.Equal("bert: hello", anna.ReceiveLine());
        bert.Close();
        Assert.Equal("bert has left", anna.ReceiveLine());
    }

    [Fact]
    public void A_name_that_is_too_long_is_refused()
    {
        TestPeer guest = _network.Accept(() => new ChatSession(_room));
        guest.ReceiveLine();
        guest.Send(new string('x', 21) + "\n");
        Assert.StartsWith("That is a long name.", guest.ReceiveLine());
        Assert.Equal(0, _room.Guests.Count);
    }

    [Fact]
    public void A_line_without_an_end_ends_its_connection_and_no_other()
    {
        TestPeer anna = Enter("anna"), noisy = Enter("noisy");
        noisy.Send(new string('x', 2000));
        _network.Run();
        Assert.False(noisy.IsConnected);
        Assert.True(anna.IsConnected);
    }

    private TestPeer Enter(string name)
    {
        TestPeer guest = _network.Accept(() => new ChatSession(_room));
        Assert.Equal("Who are you?", guest.ReceiveLine());
        guest.Send(name + "\n");
        Assert.Equal($"Hello {name}. /quit leaves.", guest.ReceiveLine());
        return guest;
    }
}
