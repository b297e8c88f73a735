#:project ../../src/Whimbrel.Calls/Whimbrel.Calls.csproj
// Calls with answers over one connection: a server, and a client that has many calls in flight.
// Try it: dotnet run rpc.cs, and in a second terminal dotnet run rpc.cs tcp://127.0.0.1:1111 call
using System.Buffers.Binary;
using System.Text;
using Whimbrel;

string address = args.ElementAtOrDefault(0) ?? "tcp://127.0.0.1:1111";
if (args.ElementAtOrDefault(1) == "call")
{
    await using CallClient client = new(address);
    try
    {
        await client.ConnectAsync();
        string[] words = ["one", "two", "three"];
        string[] answers = await Task.WhenAll(words.Select(word => AskAsync(client, word)));
        Console.WriteLine(string.Join(' ', answers));
        return 0;
    }
    catch (NetworkException e)
    {
        Console.Error.WriteLine(e.Message);
    }
    catch (CallException e)
    {
        Console.Error.WriteLine(e.MayHaveBeenHandled ? $"{e.Message} It may have been handled." : e.Message);
    }

    return 1;
}

await using Server server = new(address, () => new Reverser());
await server.StartAsync();
Console.WriteLine($"Listening at {server.EndPoint}. Ctrl-C stops.");
await StopSignal.WaitAsync();
return 0;

static async Task<string> AskAsync(CallClient client, string word)
{
    using CallAnswer answer = await client.CallAsync(Encoding.UTF8.GetBytes(word), TimeSpan.FromSeconds(2));
    return Encoding.UTF8.GetString(answer.Span);
}

sealed class Reverser() : CallSession(CallFormat.LengthPrefix())
{
    // The first byte of an answer would be a status in a protocol with errors: an error is an answer, too.
    protected override void OnCall(ulong id, ReadOnlySpan<byte> request)
    {
        char[] text = Encoding.UTF8.GetString(request).ToCharArray();
        Array.Reverse(text);
        Answer(id, Encoding.UTF8.GetBytes(text));
    }
}
