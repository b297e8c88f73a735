#:project ../../src/Whimbrel/Whimbrel.csproj
// A chat for terminals.
// Try it: nc 127.0.0.1 1111, in two windows
using System.Text;
using Whimbrel;

string address = args.FirstOrDefault() ?? "tcp://127.0.0.1:1111";
SessionGroup room = new("room");
await using Server server = new(address, () => new Guest(room));
await server.StartAsync();
Console.WriteLine($"Listening at {server.EndPoint}. Ctrl-C stops.");
await StopSignal.WaitAsync();

sealed class Guest(SessionGroup room) : FramedSession(FrameFormat.Line(limitBytes: 1024))
{
    private string? _name;

    protected override void OnConnected() => Send("Your name?\n");

    protected override void OnFrame(in Frame line)
    {
        string text = Encoding.UTF8.GetString(line.Message).Trim();
        if (text.Length == 0) return;
        if (_name is null) Enter(text);
        else if (text == "/quit") Close();
        else room.Broadcast($"{_name}: {text}\n", except: this);
    }

    private void Enter(string name)
    {
        _name = name;
        room.Broadcast($"{name} is here\n");
        room.Join(this);
        Send($"Hello {name}. /quit leaves.\n");
    }

    protected override void OnDisconnected(CloseReason reason)
    {
        if (_name is not null) room.Broadcast($"{_name} has left\n", except: this);
    }

    protected override void OnServerStopping()
    {
        Send("The server stops. Good-bye.\n");
        Close();
    }
}
