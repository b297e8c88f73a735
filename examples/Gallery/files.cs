#:project ../../src/Whimbrel.Http/Whimbrel.Http.csproj
// Serves the files of a folder, compressed where that helps, with an access log on standard output.
// Try it: dotnet run files.cs http://127.0.0.1:8080 wwwroot
using Whimbrel;
using Whimbrel.Http;

string address = args.ElementAtOrDefault(0) ?? "http://127.0.0.1:8080";
string folder = args.ElementAtOrDefault(1) ?? Environment.CurrentDirectory;
await using HttpLog log = new(Console.OpenStandardOutput());
await using HttpServer web = new(address, new HttpOptions { Compression = new HttpCompression(), Log = log });
web.Files("/", folder, new HttpFileOptions { CacheControl = "max-age=60" });
await web.StartAsync();
Console.WriteLine($"Serving {folder} at http://{web.EndPoint}. Ctrl-C stops.");
await StopSignal.WaitAsync();
