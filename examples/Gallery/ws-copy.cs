#:project ../../src/Whimbrel.Http/Whimbrel.Http.csproj
// Files over WebSocket, copied as streams: neither side has a whole file in memory.
// Try it: dotnet run ws-copy.cs, and dotnet run ws-copy.cs ws://127.0.0.1:8080/upload photo.jpg
using System.Text;
using Whimbrel;
using Whimbrel.Http;

string address = args.ElementAtOrDefault(0) ?? "http://127.0.0.1:8080";
if (address.StartsWith("ws", StringComparison.Ordinal) && args is [_, var source])
{
    try
    {
        await UploadAsync(address, source);
        return 0;
    }
    catch (IOException e) // no such file, no server, or a connection that ended too early
    {
        Console.Error.WriteLine(e.Message);
        return 1;
    }
}

string folder = args.ElementAtOrDefault(1) ?? Directory.CreateTempSubdirectory("uploads-").FullName;
await using HttpServer web = new(address);
web.WebSocket("/upload", ReceiveAsync);
await web.StartAsync();
Console.WriteLine($"Storing in {folder} at ws://{web.EndPoint}/upload. Ctrl-C stops.");
await StopSignal.WaitAsync();
return 0;

async Task ReceiveAsync(WebSocketSession socket, CancellationToken stop)
{
    string path = Path.Combine(folder, Path.GetRandomFileName());
    await using WebSocketStream stream = new(socket);
    try
    {
        await using FileStream file = File.Create(path);
        await stream.CopyToAsync(file, stop); // until the client's close frame; any other end throws
    }
    catch
    {
        File.Delete(path); // a part of a file is no file
        throw;
    }

    await stream.WriteAsync(Encoding.UTF8.GetBytes($"{new FileInfo(path).Length} bytes in {path}"), stop);
}

static async Task UploadAsync(string address, string source)
{
    await using FileStream file = File.OpenRead(source);
    await using WebSocketStream stream = await WebSocketStream.ConnectAsync(address);
    await file.CopyToAsync(stream);
    stream.ShutdownSend(); // the end of the file; the answer still comes
    using StreamReader answer = new(stream);
    Console.WriteLine(await answer.ReadToEndAsync());
}
